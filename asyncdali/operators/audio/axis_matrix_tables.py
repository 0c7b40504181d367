"""Tables of a matrix that is applied along an axis: mel filters, cosine transforms."""

from __future__ import annotations

from ...compiled.tables import INPUTS, OUTPUTS, SAMPLES, Field, Table

AXIS_SIZES = Table(
    "AXIS_SIZES",
    Field("outer", "int64", "elements of the axes before the matrix's axis"),
    Field("inner", "int64", "elements of the axes behind it"),
)
COLUMN_RANGE = Table(
    "COLUMN_RANGE",
    Field("begin", "int64", "first column of a row that is not zero"),
    Field("end", "int64", "the column behind the last one that is not zero"),
)
AXIS_MATRIX = Table(
    "AXIS_MATRIX",
    INPUTS,
    OUTPUTS,
    Field("sizes", "AXIS_SIZES[samples]", "of the samples"),
    Field("matrix", "float64[rows, columns]", "the matrix"),
    Field("rows", "int64", "rows of the matrix: elements along the output's axis"),
    Field("columns", "int64", "columns of the matrix: elements along the input's axis"),
    Field("ranges", "COLUMN_RANGE[rows]", "which columns are not zero"),
    Field("scratch", "int64", "offset of the step's own scratch in the thread's"),
    SAMPLES,
)
