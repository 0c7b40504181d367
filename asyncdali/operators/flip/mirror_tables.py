"""Tables of ``coord_flip`` and ``bb_flip``."""

from __future__ import annotations

from ...compiled.tables import INPUTS, OUTPUTS, SAMPLES, Field, Table

COORD_FLIP = Table(
    "COORD_FLIP",
    INPUTS,
    OUTPUTS,
    Field("points", "int64[samples]", "points of each sample"),
    Field("length", "int64", "coordinates of a point"),
    Field("mirrors", "float32[samples, length, 2]", "factor (1, or -1 to mirror) and addend of each coordinate"),
    SAMPLES,
)
BB_FLIP = Table(
    "BB_FLIP",
    INPUTS,
    OUTPUTS,
    Field("boxes", "int64[samples]", "boxes of each sample"),
    Field("flags", "int64[samples]", "1: horizontal, 2: vertical, 3: both"),
    Field("corners", "int64", "1: boxes are two corners; 0: a corner and extents"),
    SAMPLES,
)
