"""Table of resampling."""

from __future__ import annotations

from ...compiled.tables import INPUTS, OUTPUTS, SAMPLES, Field, Table

RESAMPLE = Table(
    "RESAMPLE",
    INPUTS,
    OUTPUTS,
    Field("lengths", "int64[samples]", "input samples in time"),
    Field("counts", "int64[samples]", "output samples in time"),
    Field("channels", "int64[samples]", "number of channels"),
    Field("ratios", "float64[samples]", "input samples for each output sample"),
    Field("weights", "float32[PER_LOBE + 2, taps]", "windowed sinc, see ``resampling``"),
    Field("lobes", "int64", "input samples that count on each side"),
    Field("taps", "int64", "columns of the weights"),
    SAMPLES,
)
