"""Table of ``copy``."""

from __future__ import annotations

from ...compiled.tables import INPUTS, OUTPUTS, SAMPLES, Field, Table

COPY = Table("COPY", INPUTS, OUTPUTS, Field("sizes", "int64[samples]", "bytes of each sample"), SAMPLES)
