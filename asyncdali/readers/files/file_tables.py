"""Tables of the steps that read whole files (``file_kernels``)."""

from __future__ import annotations

from ...compiled.tables import Field, Table

_PATHS = Field("paths", "uint8", "NUL-terminated paths, one after another")
_STARTS = Field("starts", "int64[samples]", "where the path of each sample begins in `paths`")
_DESCRIPTORS = Field("descriptors", "int64[samples]", "of files that are open; -1: not open; DONE: read and closed")

OPEN_FILES = Table(
    "OPEN_FILES",
    _PATHS,
    _STARTS,
    _DESCRIPTORS,
    Field("sizes", "int64[samples]", "bytes of each file; written by the step"),
    Field("read_ahead", "int64", "1: the system is asked to read files that are left for later"),
    Field("may_stay_open", "int64", "how many of the files may stay open"),
    Field("block", "address", "of the memory set aside, a multiple of 64"),
    Field("capacity", "int64", "bytes of the memory set aside; 0: nothing is read"),
    Field("expected", "int64", "the files' size if it is expected to be equal, else 0; equal files have their places in order"),
    Field("used", "int64", "bytes of the memory used so far; may come to exceed `capacity`"),
    Field("addresses", "addresses", "of the files that were read; written by the step"),
    Field("scan", "function", "called for each file that was read: (file, bytes, record) -> marks; 0: there is none"),
    Field("heads", "address", "of the records that `scan` fills"),
    Field("head_bytes", "int64", "of a record"),
    Field("marks", "int64[samples]", "the values that `scan` returned; written by the step"),
    Field(
        "found",
        "int64",
        "written by `look_back`: files left to be read, empty files, bytes of all files (each rounded up to a multiple of 64), the size "
        "of every file if all are equal and not empty, else 0, and the bits that the marks of all files have",
        ("left", "empty", "bytes", "equal", "marks"),
    ),
)
READ_FILES = Table(
    "READ_FILES",
    _DESCRIPTORS,
    Field("sizes", "int64[samples]", "bytes of each file"),
    Field("addresses", "addresses", "where the files are read to"),
    _PATHS,
    _STARTS,
)
READ_DIRECT = Table(
    "READ_DIRECT",
    Field("sizes", "int64[samples]", "bytes of each file"),
    Field("room", "int64[samples]", "these sizes rounded up to whole blocks"),
    Field("addresses", "addresses", "where the files are read to, multiples of the block's size"),
    _PATHS,
    _STARTS,
)
ADVISE_FILES = Table("ADVISE_FILES", _PATHS, _STARTS)
COPY_PATHS = Table(
    "COPY_PATHS",
    Field("texts", "addresses", "of the samples' texts"),
    Field("lengths", "int64[samples]", "bytes of each text"),
    Field("targets", "addresses", "where the paths are written, each with a NUL behind it"),
)
