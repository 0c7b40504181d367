"""Tables of ``jpeg_compression_distortion``."""

from __future__ import annotations

from ...compiled.tables import INPUTS, OUTPUTS, SAMPLES, Field, Table

DISTORTION_RECORD = Table(
    "DISTORTION_RECORD",
    Field("frames", "int64", "images one after another"),
    Field("height", "int64", "rows"),
    Field("width", "int64", "pixels of a row"),
    Field("down", "int64", "rows of units (16 x 16 pixels)"),
    Field("across", "int64", "units of a row"),
    Field("begin", "int64", "byte of the GPU's work memory at which the sample's planes begin"),
)
DISTORTION = Table(
    "DISTORTION",
    INPUTS,
    OUTPUTS,
    Field("records", "DISTORTION_RECORD[samples]", "extents"),
    Field("tables", "uint16[samples, 2, 4, 8, 32]", "of luma and of chroma, see ``forward_dct.quantisation``"),
    Field("scratch", "int64", "offset of the step's scratch in the thread's"),
    SAMPLES,
)
DISTORTION_GPU = Table(
    "DISTORTION_GPU",
    INPUTS,
    OUTPUTS,
    Field("records", "DISTORTION_RECORD[samples]", "extents"),
    Field("divisors", "int32[samples, 2, 64]", "quantisation of luma and of chroma, row by row"),
    Field("planes", "bytes", "decoded luma and the two chromas of each frame, in whole units"),
    SAMPLES,
)
