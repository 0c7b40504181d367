"""The table of the conversion of decoded frames to RGB."""

from __future__ import annotations

from ...compiled.tables import Field, Table

NARROWEST = 32
"""Pixels of the narrowest row that the kernel converts."""

FRAMES = Table(
    "FRAMES",
    Field("stride", "int64", "bytes from a row of a plane to the next one", ("luma", "blue", "red")),
    Field("width", "int64", "pixels of a row, at least NARROWEST"),
    Field("height", "int64", "rows"),
    Field("halved", "int64", "1 if two pixels share a sample of chroma", ("x", "y")),
    Field("left", "int64", "1 if shared chroma is at the left one of two pixels, 0 if it is between them"),
    Field("bits", "int64", "of a sample, 8 to 12"),
    Field("matrix", "int32[7]", "factors, and what is done with the sums of products"),
    Field("scratch", "int16[3, width + 2]", "no contents"),
)
"""Common properties of the frames of one video."""
