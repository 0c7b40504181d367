"""Tables of ``to_decibels``."""

from __future__ import annotations

from ...compiled.tables import INPUTS, OUTPUTS, SAMPLES, Field, Table

_COUNTS = Field("counts", "int64[samples]", "elements of each sample")

DECIBEL_NUMBERS = Table(
    "DECIBEL_NUMBERS",
    Field("multiplier", "float64", "of the logarithm"),
    Field("reference", "float64", "value at 0 dB; 0: the largest element of each sample"),
    Field("least", "float64", "smallest ratio to the reference"),
)
"""A record of float64."""
DECIBELS = Table("DECIBELS", INPUTS, OUTPUTS, _COUNTS, Field("numbers", "DECIBEL_NUMBERS", "of all samples"))
DECIBELS_GPU = DECIBELS.extended(
    SAMPLES,
    Field("parts", "int64", "parts of a sample that are searched for their largest element; 0: the reference is given"),
    Field("peaks", "float32[samples, parts]", "largest elements"),
)
