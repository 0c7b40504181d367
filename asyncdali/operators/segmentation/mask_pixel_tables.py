"""Table of ``segmentation.random_mask_pixel``."""

from __future__ import annotations

from ...compiled.tables import INPUTS, OUTPUTS, Field, Table
from ...sampling.stream_tables import POSITION

MASK_PIXEL = Table(
    "MASK_PIXEL",
    INPUTS,
    Field("shapes", "int64[samples, axes]", "extents of each mask"),
    Field("axes", "int64", "dimensions of the masks"),
    OUTPUTS,
    Field("foreground", "int64[samples]", "1: a pixel of the foreground is picked; 0: any pixel"),
    Field("bounds", "float32[samples]", "the foreground is equal to this number, or above it"),
    Field("by_value", "int64", "1: the foreground is equal to its bound; 0: it is above"),
    POSITION,
)
