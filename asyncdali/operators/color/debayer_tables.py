"""Tables of ``debayer``."""

from __future__ import annotations

from ...compiled.tables import INPUTS, OUTPUTS, SAMPLES, Field, Table

DEBAYER_RECORD = Table(
    "DEBAYER_RECORD",
    Field("frames", "int64", "planes one after another"),
    Field("height", "int64", "rows"),
    Field("width", "int64", "pixels of a row"),
    Field("blue", "int64", "the blue pixel of the 2 x 2 pixels at row 1, column 1", "yx"),
)
DEBAYER = Table(
    "DEBAYER",
    INPUTS,
    OUTPUTS,
    Field("records", "DEBAYER_RECORD[samples]", "extents and positions"),
    Field("algorithm", "int64", "index in debayer.ALGORITHMS"),
    SAMPLES,
)
