"""Tables of the kernels that gather windows and samples from device memory."""

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

COPIES = Table(
    "COPIES",
    Field("sources", "addresses", "of the samples"),
    Field("targets", "addresses", "of their copies"),
    Field("sizes", "int64[samples]", "bytes of each sample"),
    SAMPLES,
)
