"""Tables of the kernel that gathers windows from device memory."""

from __future__ import annotations

from ...compiled.tables import SAMPLES, Field, Table

GATHER_WINDOW = Table(
    "GATHER_WINDOW",
    Field("source", "address", "where the window begins"),
    Field("pitch", "int64", "bytes from one row of the window to the next"),
    Field("rows", "int64", "rows"),
    Field("row_bytes", "int64", "bytes of a row"),
    Field("target", "address", "where the window goes, without gaps"),
)

GATHER = Table("GATHER", Field("windows", "GATHER_WINDOW[samples]", "the windows"), SAMPLES)
