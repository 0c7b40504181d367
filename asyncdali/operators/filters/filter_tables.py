"""Tables of ``filter``."""

from __future__ import annotations

from ...compiled.tables import INPUTS, OUTPUTS, SAMPLES, Field, Table
from .plane_tables import AXES, PLANES

CORRELATE_RECORD = Table(
    "CORRELATE_RECORD",
    *PLANES.fields,
    Field("out", "int64", "extents of the output", AXES),
    Field("filter", "int64", "extents of the filter", AXES),
    Field("anchor", "int64", "the position in the filter that lies on the output's pixel", AXES),
)

CORRELATE = Table(
    "CORRELATE",
    INPUTS,
    Field("filters", "addresses", "of the samples' filters, float32"),
    Field("fills", "addresses", "of the samples' fill values; 0: the fill value is 0"),
    OUTPUTS,
    Field("records", "CORRELATE_RECORD[samples]", "extents and anchors"),
    Field("border", "int64", "values outside the input: index in filter.BORDERS"),
    Field("scratch", "int64", "offset of the step's scratch in the thread's"),
    SAMPLES,
)
