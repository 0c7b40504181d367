"""Tables of ``experimental.remap``."""

from __future__ import annotations

from ...compiled.tables import INPUTS, OUTPUTS, SAMPLES, Field, Table

REMAP_RECORD = Table(
    "REMAP_RECORD",
    Field("frames", "int64", "images one after another"),
    Field("height", "int64", "rows"),
    Field("width", "int64", "pixels of a row"),
    Field("channels", "int64", "elements of a pixel"),
    Field("step", "int64", "elements from one frame's map to the next, 0 if one is for all", "xy"),
)
REMAP = Table(
    "REMAP",
    INPUTS,
    OUTPUTS,
    Field("maps_x", "addresses", "float32 maps of columns"),
    Field("maps_y", "addresses", "float32 maps of rows"),
    Field("records", "REMAP_RECORD[samples]", "extents"),
    Field("linear", "int64", "1: linear interpolation, 0: nearest pixel"),
    Field("corner", "int64", "1: the centre of the first pixel is at 0.5, 0: at 0"),
    SAMPLES,
)
