"""Tables of ``flip``."""

from __future__ import annotations

from ...compiled.tables import INPUTS, OUTPUTS, SAMPLES, Field, Table

FLIP_RECORD = Table(
    "FLIP_RECORD",
    Field("outer", "int64", "frames times leading channels"),
    Field("depth", "int64", "planes"),
    Field("height", "int64", "rows"),
    Field("width", "int64", "pixels of a row"),
    Field("pixel", "int64", "bytes of a pixel"),
    Field("depthwise", "int64", "1: planes in reverse order"),
    Field("vertical", "int64", "1: rows in reverse order"),
    Field("horizontal", "int64", "1: pixels of a row in reverse order"),
)
FLIP = Table("FLIP", INPUTS, OUTPUTS, Field("records", "FLIP_RECORD[samples]", "what is reversed"), SAMPLES)
