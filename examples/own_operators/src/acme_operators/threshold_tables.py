"""The table of ``threshold``, which the compiled step and the CUDA kernel read."""

from __future__ import annotations

from asyncdali.extending import INPUTS, OUTPUTS, SAMPLES, Field, Table

THRESHOLD = Table(
    "THRESHOLD",
    INPUTS,
    OUTPUTS,
    Field("sizes", "int64[samples]", "elements of each sample"),
    Field("records", "float32[samples, 3]", "level, low and high value"),
    SAMPLES,
)
