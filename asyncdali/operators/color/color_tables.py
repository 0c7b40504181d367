"""Tables of the planning of colour operators."""

from __future__ import annotations

from ...compiled.tables import SAMPLES, Field, Table

TWISTS = Table(
    "TWISTS",
    SAMPLES,
    Field("hues", "float32[samples]", "angles in degrees"),
    Field("saturations", "float32[samples]", "factors"),
    Field("values", "float32[samples]", "factors"),
    Field("brightnesses", "float32[samples]", "factors"),
    Field("contrasts", "float32[samples]", "factors"),
    Field("half", "float32", "bits of what contrast leaves alone"),
    Field("to_yiq", "float32[3, 3]", "matrix from colours to luma and two chroma axes"),
    Field("from_yiq", "float32[3, 3]", "its inverse"),
    Field("rows", "float32[samples, 10]", "result: a matrix and an offset for each sample"),
    Field("shapes", "int64[samples, ndim]", "of the input, channels last"),
    Field("ndim", "int64", "axes of a sample"),
    Field("pixels", "int64[samples]", "result: of each sample"),
)
"""Arguments and results of ``color_kernels.plan_twists``."""
