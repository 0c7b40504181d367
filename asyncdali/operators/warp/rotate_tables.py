"""Tables of ``rotate`` and ``warp_affine``."""

from __future__ import annotations

from ...compiled.tables import INPUTS, OUTPUTS, SAMPLES, Field, Table

ROTATE_RECORD = Table(
    "ROTATE_RECORD",
    Field("frames", "int64", "frames of the sequence; 1 without frames"),
    Field("in", "int64", "extents of the input", ("depth", "height", "width")),
    Field("channels", "int64", "channels of a pixel"),
    Field("out", "int64", "extents of the output", ("depth", "height", "width")),
    Field("map", "int64", "row of the sample's first map"),
    Field("map_step", "int64", "rows from a frame's map to the next one's: 0 or 1"),
)
ROTATE = Table(
    "ROTATE",
    INPUTS,
    OUTPUTS,
    Field("records", "ROTATE_RECORD[samples]", "extents and maps"),
    Field("maps", "float32[rows, 3, 4]", "source x, y, z from output x, y, z, 1; pixel centres at .5"),
    Field("fill", "float32[1]", "value outside the source"),
    Field("clamp", "int64", "1: the border is repeated instead"),
    Field("linear", "int64", "1: linear interpolation; 0: nearest"),
    SAMPLES,
)
