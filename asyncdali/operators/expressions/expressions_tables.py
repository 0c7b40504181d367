"""Tables of expressions: the step's table, the record of a sample, and the table of a program's code."""

from __future__ import annotations

from ...compiled.tables import OUTPUTS, SAMPLES, Field, Table

WALK_HEAD = Table(
    "WALK_HEAD",
    Field("kernel", "address", "of the program's code for the sample"),
    Field("tile_rows", "int64", "rows that are made one, because they are short; 0: none"),
)
"""Head of a sample's record.

Behind it: the extent of each group, then the strides of each input in bytes, one per group.
"""

_SHARED = (
    OUTPUTS,
    Field("records", "int64[samples, width]", "how samples are walked: WALK_HEAD, extents, strides"),
    Field("width", "int64", "words of a record"),
    Field("groups", "int64", "groups of dimensions"),
)
EXPRESSION = Table(
    "EXPRESSION",
    *_SHARED,
    Field("input_count", "int64", "inputs of the program"),
    Field("itemsize", "int64", "bytes of an element of the output"),
    Field("inputs", "addresses[inputs]", "of the addresses of each input's samples"),
    Field("scratch", "int64", "offset of the step's scratch in the thread's"),
    Field("itemsizes", "int64[inputs]", "bytes of an element of each input"),
)
"""The compiled step's table."""

EXPRESSION_CUDA = Table("EXPRESSION_CUDA", *_SHARED, SAMPLES)
"""The table of a GPU's kernel. Behind it: the addresses of the samples of each input."""

PROGRAM = Table(
    "PROGRAM",
    Field("rows", "int64", "rows to compute"),
    Field("count", "int64", "elements of a row"),
    Field("output", "address", "of the first row of the output"),
)
"""The table of a program's code. Behind it: the address of each input, then the row stride of each input in bytes."""
