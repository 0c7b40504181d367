"""Tables of ``lookup_table`` and ``one_hot``."""

from __future__ import annotations

from ...compiled.tables import INPUTS, OUTPUTS, SAMPLES, Field, Table

LOOKUP = Table(
    "LOOKUP",
    INPUTS,
    OUTPUTS,
    Field("counts", "int64[samples]", "elements"),
    Field("table", "address", "of the values in the output's type, by key; the last one is the default"),
    Field("length", "int64", "values of the table, without the default"),
    SAMPLES,
)
ONE_HOT_RECORD = Table(
    "ONE_HOT_RECORD",
    Field("outer", "int64", "elements before the new axis"),
    Field("classes", "int64", "extent of the new axis"),
    Field("inner", "int64", "elements after the new axis"),
)
ONE_HOT = Table(
    "ONE_HOT",
    INPUTS,
    OUTPUTS,
    Field("records", "ONE_HOT_RECORD[samples]", "shapes"),
    Field("values", "address", "of two values in the output's type: off and on"),
    SAMPLES,
)
