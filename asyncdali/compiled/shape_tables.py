"""Shapes of samples as records of compiled code."""

from __future__ import annotations

from .tables import Field, Table

HWC = Table(
    "HWC", Field("height", "int64", "rows"), Field("width", "int64", "pixels of a row"), Field("channels", "int64", "elements of a pixel")
)
"""The shape of an image."""
