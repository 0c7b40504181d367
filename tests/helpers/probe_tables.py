"""The table of the compiled step of the test operators."""

from __future__ import annotations

from asyncdali.compiled.tables import OUTPUTS, Field, Table

NUMBER = Table(
    "NUMBER",
    OUTPUTS,
    Field("elements", "int64", "elements of each sample"),
    Field("factor", "int64", "what a sample's number is multiplied by"),
    Field("bad", "int64", "the sample that fails"),
)
