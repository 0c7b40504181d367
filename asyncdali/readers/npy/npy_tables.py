"""Tables of ``readers.numpy``."""

from __future__ import annotations

from ...compiled.tables import Field, Table

_PATHS = Field("paths", "uint8", "NUL-terminated paths, one after another")
_STARTS = Field("starts", "int64[samples]", "where the path of each sample begins in `paths`")
_DESCRIPTORS = Field("descriptors", "int64[samples]", "of files that are open; -1: not open")
_DIRECT = Field("direct", "int64", "1: the files are read past the system's cache")

OPEN_ARRAYS = Table(
    "OPEN_ARRAYS",
    _PATHS,
    _STARTS,
    _DESCRIPTORS,
    Field("headers", "NPY_HEADER[samples]", "of the files; those that are not filled are written by the step"),
    Field("may_stay_open", "int64", "how many of the files may stay open"),
    _DIRECT,
    Field("read_ahead", "int64", "1: the system is asked to read the files into its cache"),
    Field("scratch", "int64", "offset of the scratch"),
)
READ_ARRAYS = Table(
    "READ_ARRAYS",
    _PATHS,
    _STARTS,
    _DESCRIPTORS,
    Field("offsets", "int64[samples]", "where reading begins in the files, in bytes"),
    Field("lengths", "int64[samples]", "bytes to read"),
    Field("needed", "int64[samples]", "bytes that there must be at least"),
    Field("addresses", "addresses", "where the bytes are read to"),
    Field("elements", "addresses", "of the first wanted element in memory; 0: the elements were read to their place in the output"),
    Field("outputs", "addresses", "of the output's samples"),
    Field("filled", "int64[samples]", "bytes of the output that are filled first"),
    Field("shifts", "int64[samples]", "bytes from the start of the output's sample to the first element that is copied"),
    Field("geometry", "int64[samples, 3, dimensions]", "extents, source strides and target strides in bytes"),
    Field("dimensions", "int64", "axes of `geometry`"),
    Field("width", "int64", "bytes of an element"),
    Field("fill", "int64", "bits of the element that the output is filled with"),
    _DIRECT,
)
