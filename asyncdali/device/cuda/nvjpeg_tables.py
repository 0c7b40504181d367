"""Structures of nvJPEG that compiled code fills in."""

from __future__ import annotations

from ...compiled.tables import Field, Table

NVJPEG_IMAGE = Table(
    "NVJPEG_IMAGE",
    Field("channel", "address", "of each channel", "0123"),
    Field("pitch", "uint64", "bytes from one row to the next, of each channel", "0123"),
)
"""nvjpegImage_t."""
