"""Table of ``cast``."""

from __future__ import annotations

from ...compiled.tables import INPUTS, OUTPUTS, SAMPLES, Field, Table

CAST = Table("CAST", INPUTS, OUTPUTS, Field("counts", "int64[samples]", "elements of each sample"), SAMPLES)
