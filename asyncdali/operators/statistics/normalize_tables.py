"""Tables of ``normalize``, after the reductions."""

from __future__ import annotations

from ...compiled.tables import INPUTS, OUTPUTS, SAMPLES, Field, Table
from .place_tables import place_field

FACTORS = Table(
    "FACTORS",
    place_field("variances", "float32[count]", "that become factors, in place"),
    Field("counts", "int64[samples]", "variances of each sample"),
    Field("known", "int64[samples]", "0: the sample's variances count as 0"),
    Field("scale_and_epsilon", "float32[2]", "the deviation of the output; what is added to variances"),
    SAMPLES,
)

OVER_BATCH = Table(
    "OVER_BATCH",
    Field("values", "float32[samples, count]", "of all samples"),
    Field("count", "int64", "values of a sample"),
    Field("samples", "int64", "samples of the batch"),
    Field("scale", "float32[1]", "factor of the sum"),
    Field("result", "float32[count]", "the scaled sums"),
)

APPLY = Table(
    "APPLY",
    INPUTS,
    OUTPUTS,
    Field(
        "records", "int64[samples, 3, groups]", "extents of the groups, their strides in the means, their strides in the factors (elements)"
    ),
    Field("groups", "int64", "groups of neighbouring axes"),
    place_field("means", "float32[]", "subtracted from elements"),
    place_field("factors", "float32[]", "factors of the differences"),
    Field("shift", "float32[1]", "added to the product"),
    SAMPLES,
)
