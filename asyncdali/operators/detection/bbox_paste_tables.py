"""Tables of ``bbox_paste``."""

from __future__ import annotations

from ...compiled.tables import INPUTS, OUTPUTS, Field, Table

PLACEMENT = Table(
    "PLACEMENT",
    Field("scale", "float32", "factor of all coordinates"),
    Field("shift", "float32", "added to the scaled coordinates", "xy"),
)
"""Record of a sample, of float32."""

BOX_PASTE = Table(
    "BOX_PASTE",
    INPUTS,
    OUTPUTS,
    Field("boxes", "int64[samples]", "boxes of each sample"),
    Field("placements", "PLACEMENT[samples]", "where the images go on their canvases"),
    Field("corners", "int64", "1: boxes are two corners; 0: a corner and extents"),
)
