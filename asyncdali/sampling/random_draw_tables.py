"""The table of the numbers of one batch."""

from __future__ import annotations

from ..compiled.tables import Field, Table

DRAW = Table(
    "DRAW",
    Field("samples", "int64", "samples of the batch"),
    Field("count", "int64", "elements of every sample, unless `counts` is given"),
    Field("counts", "int64[samples]", "elements of each sample; 0: `count` each"),
    Field("first", "float32", "the bits of the first parameter, or float32[samples]; values to choose from"),
    Field("first_step", "int64", "bytes from one sample's parameter to the next; 0: all have one. The number of values to choose from"),
    Field("second", "float32", "the second parameter; int64[samples], the number of values of each sample, or 0"),
    Field("second_step", "int64", "as `first_step`"),
    Field("kind", "int64", "the element type, a DALIDataType"),
)
"""All about a draw but its position. Each distribution has its own kernel, which says what the parameters are."""
