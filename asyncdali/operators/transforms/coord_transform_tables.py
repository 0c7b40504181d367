"""Table of ``coord_transform``."""

from __future__ import annotations

from ...compiled.tables import INPUTS, OUTPUTS, SAMPLES, Field, Table

COORD_TRANSFORM = Table(
    "COORD_TRANSFORM",
    INPUTS,
    OUTPUTS,
    Field("points", "int64[samples]", "points of each sample"),
    Field("rows", "int64", "coordinates of an output point"),
    Field("columns", "int64", "coordinates of an input point"),
    Field("matrices", "float32[samples, rows, columns + 1]", "the offset is the last column"),
    SAMPLES,
)
