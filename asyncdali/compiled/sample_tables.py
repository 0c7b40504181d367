"""Table of the operators that compute every sample by a function of arrays (``operators/samples.py``)."""

from __future__ import annotations

from functools import cache

from .tables import SAMPLES, Field, Table

SAMPLE = Table(
    "SAMPLE",
    Field("records", "int64[samples, length]", "the record of each sample"),
    Field("length", "int64", "words of a record"),
    Field("numbers", "float32[samples, width]", "the float arguments of each sample"),
    Field("width", "int64", "float arguments of a sample"),
    Field("counts", "int64[samples, inputs + outputs]", "elements of each array"),
    Field("items", "int64[samples]", "work items of each sample, for kernels of a GPU"),
    Field("scratch", "int64", "offset of the step's scratch in the thread's; for kernels of a GPU: float32[], the scratch of all samples"),
    Field("scratch_sizes", "int64[samples]", "elements of each sample's scratch; 0 (no array): the operator uses none"),
    Field("scratch_starts", "int64[samples]", "first element of each sample's scratch, for kernels of a GPU"),
    SAMPLES,
)
"""The words before the addresses of inputs and outputs."""


@cache
def sample_table(inputs: int, outputs: int) -> Table:
    """The table of an operator with these numbers of inputs and outputs."""
    parts = [tuple(map(str, range(count))) for count in (inputs, outputs)]
    return SAMPLE.extended(
        *([Field("input", "addresses", "of the samples of each input", parts[0])] if inputs else []),
        Field("output", "addresses", "of the samples of each output", parts[1]),
    )
