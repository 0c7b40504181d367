"""The record of a sample that a filter addresses as planes."""

from __future__ import annotations

from ...compiled.tables import Field, Table

AXES = ("depth", "height", "width")

PLANES = Table(
    "PLANES",
    Field("planes", "int64", "frames times leading channels"),
    Field("in", "int64", "extents along the data axes; 1 for an axis that is not there", AXES),
    Field("channels", "int64", "trailing channels"),
)
