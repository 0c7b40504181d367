"""Structures of nvJPEG that compiled code fills in."""

from __future__ import annotations

from ...compiled.tables import SAMPLES, Field, Table

NVJPEG_IMAGE = Table(
    "NVJPEG_IMAGE",
    Field("channel", "address", "of each channel", "0123"),
    Field("pitch", "uint64", "bytes from one row to the next, of each channel", "0123"),
)
"""nvjpegImage_t."""

MARKS = Table(
    "MARKS",
    Field("places", "address[samples]", "of the last row of each picture"),
    Field("found", "address", "uint8[samples], result: 1 if the mark is still there"),
    SAMPLES,
)
"""Table of the kernels in nvjpeg_marks.cu."""
