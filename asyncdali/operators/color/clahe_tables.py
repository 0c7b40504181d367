"""Tables of ``clahe``."""

from __future__ import annotations

from ...compiled.tables import INPUTS, OUTPUTS, SAMPLES, Field, Table

CLAHE_RECORD = Table(
    "CLAHE_RECORD",
    Field("height", "int64", "rows"),
    Field("width", "int64", "pixels of a row"),
    Field("channels", "int64", "elements of a pixel"),
    Field("tile_rows", "int64", "rows of a tile"),
    Field("tile_columns", "int64", "pixels of a tile's row"),
    Field("limit", "int64", "most elements of a bin, 0: no limit"),
    Field("planes", "int64", "planes that are equalized: the lightness, or all channels"),
    Field("first", "int64", "index of the first plane among those of all samples"),
)
CLAHE = Table(
    "CLAHE",
    INPUTS,
    OUTPUTS,
    Field("records", "CLAHE_RECORD[samples]", "extents"),
    Field("tiles", "int64", "tiles along each axis", ("x", "y")),
    Field("lightness", "int64", "1: pixels of three channels are RGB, of which only the lightness is equalized"),
    Field("linear", "uint16[256]", "light of an sRGB value"),
    Field("roots", "uint16[3072]", "cube roots (CIELAB's f) of light"),
    Field("luminances", "uint16[256, 2]", "luminance of a lightness, and its root"),
    Field("srgb", "uint16[4096]", "sRGB value of light"),
    Field("scratch", "int64", "offset of the step's scratch in the thread's"),
    SAMPLES,
)
CLAHE_GPU = CLAHE.extended(
    Field("lookups", "uint8[planes of all samples, tiles, 256]", "what a value becomes in the middle of a tile; computed"),
)
