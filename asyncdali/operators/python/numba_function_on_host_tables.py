"""Position of a thread, when a kernel for ``numba.cuda`` runs on the host."""

from __future__ import annotations

from ...compiled.tables import Field, Table

PLACE = Table(
    "PLACE",
    Field("threadIdx", "int64", "the thread in its block", "xyz"),
    Field("blockIdx", "int64", "the block in the grid", "xyz"),
    Field("blockDim", "int64", "threads of a block", "xyz"),
    Field("gridDim", "int64", "blocks of the grid", "xyz"),
)
"""Fields have their names in ``numba.cuda``."""
