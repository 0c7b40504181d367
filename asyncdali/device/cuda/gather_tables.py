"""Table of the kernel that gathers windows from device memory."""

from __future__ import annotations

from ...compiled.tables import SAMPLES, Field, Table

GATHER = Table(
    "GATHER",
    Field("sources", "addresses", "where the windows begin"),
    Field("pitches", "int64[samples]", "bytes from one row of the window to the next"),
    Field("rows", "int64[samples]", "rows of each window"),
    Field("row_bytes", "int64[samples]", "bytes of a row of the window"),
    Field("targets", "addresses", "where the windows go, without gaps"),
    SAMPLES,
)
