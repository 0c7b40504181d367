"""The contents of the header of a NumPy file."""

from __future__ import annotations

from ..compiled.tables import Field, Table

DIMENSIONS = 32
"""Most dimensions of an array."""

NPY_HEADER = Table(
    "NPY_HEADER",
    Field("status", "int64", "1: the record is filled; else a status, or 0: the header has not been read"),
    Field("type", "int64", "byte order << 16 | kind << 8 | bytes: the parts of the element type, as characters and a number"),
    Field("fortran", "int64", "1: the first axis is the fastest"),
    Field("dimensions", "int64", "number of dimensions"),
    Field("data", "int64", "where the elements begin in the file, in bytes"),
    Field("file_bytes", "int64", "bytes of the file"),
    Field("shape", "int64", "extents of the first `dimensions` axes", tuple(map(str, range(DIMENSIONS)))),
)
"""Record of a file."""
