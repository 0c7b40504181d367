"""Table of reductions: one for compiled steps and for a GPU's kernels."""

from __future__ import annotations

from ...compiled.tables import INPUTS, SAMPLES, Field, Table
from .place_tables import place_field

MAX_AXES = 32
"""Most axes of an input."""
FINISHES = {"sum": 0, "mean": 1, "root": 2}
"""The operation after the sum: nothing, the mean, the root of the mean."""

REDUCTION = Table(
    "REDUCTION",
    INPUTS,
    place_field("out", "OUT[outputs]", "of the results"),
    Field(
        "records",
        "int64[samples, 2 * (kept + reduced)]",
        "extents and strides (bytes) of the kept groups of axes, extents and strides of the reduced ones",
    ),
    Field("kept", "int64", "groups of neighbouring axes that stay"),
    Field("reduced", "int64", "groups of neighbouring axes that are reduced"),
    Field("finish", "int64", "one of FINISHES"),
    Field("ddof", "int64", "subtracted from the number of elements in the divisor"),
    place_field("means", "float32[outputs] or float32[1]", "means from which deviations are measured"),
    Field("each", "int64[samples]", "1: the sample has a mean for each output; 0: one for all"),
    Field("integer", "int64", "bytes of an integer of the output; 0: the output is float32"),
    Field("signed", "int64", "1: integers of the output have a sign"),
    Field("no_axes", "int64", "1: the user gave an empty list of axes"),
)

REDUCTION_CUDA = REDUCTION.extended(
    SAMPLES,
    Field("partials", "sums[outputs of all samples, parts]", "results of parts"),
    Field("first", "int64[samples]", "outputs of the samples before"),
    Field("parts", "int64", "parts that each output is summed in"),
)
