"""Tables of the operators on rectangles of pixels: ``experimental.dilate``, ``experimental.erode``, ``experimental.median_blur``."""

from __future__ import annotations

from ...compiled.tables import INPUTS, OUTPUTS, SAMPLES, Field, Table

RECTANGLE_RECORD = Table(
    "RECTANGLE_RECORD",
    Field("planes", "int64", "frames times leading channels"),
    Field("height", "int64", "rows of a plane"),
    Field("width", "int64", "pixels of a row"),
    Field("channels", "int64", "elements of a pixel"),
    Field("window", "int64", "extents of the rectangle, in pixels", ("height", "width")),
    Field("anchor", "int64", "the pixel of the rectangle that lies on the output's pixel", "yx"),
    Field("first", "int64", "elements of all samples before this one"),
)
RECTANGLE = Table(
    "RECTANGLE",
    INPUTS,
    OUTPUTS,
    Field("records", "RECTANGLE_RECORD[samples]", "planes and rectangles"),
    Field("border", "int64", "index in filter.BORDERS"),
    Field("iterations", "int64", "how often dilate and erode are repeated"),
    Field("scratch", "int64", "offset of this step's memory in the thread's scratch"),
)
RECTANGLE_LAUNCH = Table(
    "RECTANGLE_LAUNCH",
    INPUTS,
    OUTPUTS,
    Field("records", "RECTANGLE_RECORD[samples]", "planes and rectangles"),
    Field("border", "int64", "index in filter.BORDERS"),
    Field("between", "address", "elements between a pass along rows and one along columns"),
    SAMPLES,
)
