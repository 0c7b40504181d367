"""Tables of ``experimental.warp_perspective``."""

from __future__ import annotations

from ...compiled.tables import INPUTS, OUTPUTS, SAMPLES, Field, Table

PERSPECTIVE_RECORD = Table(
    "PERSPECTIVE_RECORD",
    Field("frames", "int64", "images of the output, one after another"),
    Field("planes", "int64", "planes of an image that follow each other (CHW); otherwise 1"),
    Field("height", "int64", "rows of the input"),
    Field("width", "int64", "pixels of a row of the input"),
    Field("rows", "int64", "rows of the output"),
    Field("columns", "int64", "pixels of a row of the output"),
    Field("channels", "int64", "elements of a pixel"),
    Field("step", "int64", "1: every frame has its own input image, 0: all frames show the same image"),
    Field("first", "int64", "index of the first frame's transform"),
    Field("transform_step", "int64", "1: every frame has its own transform in the second input, 0: all have the same"),
)
PERSPECTIVE = Table(
    "PERSPECTIVE",
    INPUTS,
    OUTPUTS,
    Field("transforms", "addresses", "float32[3, 3] of the second input, or nothing"),
    Field("maps", "float64[frames of all samples, 3, 3]", "from pixels of the output to pixels of the input"),
    Field("records", "PERSPECTIVE_RECORD[samples]", "extents"),
    Field("fills", "float32[samples, 4]", "values outside the input, one per channel"),
    Field("border", "int64", "border mode, numbered as in borders.cuh"),
    Field("corner", "int64", "1: the second input's transforms are for pixels whose first corner is at 0, 0: whose first centre is"),
    Field("inverted", "int64", "1: the second input's transforms map from the input to the output"),
    SAMPLES,
)
