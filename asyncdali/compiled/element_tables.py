"""Table of the operators that compute every element by itself (``operators/elements.py``)."""

from __future__ import annotations

from .tables import INPUTS, OUTPUTS, SAMPLES, Field, Table

ELEMENTS = Table(
    "ELEMENTS",
    INPUTS,
    OUTPUTS,
    Field("counts", "int64[samples]", "elements of each sample"),
    Field("numbers", "float32[samples, width]", "the arguments of each sample"),
    Field("width", "int64", "arguments of a sample"),
    SAMPLES,
)
