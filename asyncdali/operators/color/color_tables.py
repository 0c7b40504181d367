"""Tables of the colour operators: inputs of steps, and results of planning."""

from __future__ import annotations

from ...compiled.tables import INPUTS, OUTPUTS, SAMPLES, Field, Table

MATRIX_FACTORS = Table(
    "MATRIX_FACTORS",
    Field("m", "float32", "matrix[3, 3], a row for each channel of the output", "012345678"),
    Field("offset", "float32", "added to each channel"),
)
"""A record of float32: ``matrix @ pixel + offset``."""
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
    Field("rows", "MATRIX_FACTORS[samples]", "result: a matrix and an offset for each sample"),
)
"""Arguments and results of ``color_matrix_kernels.plan_twists``."""

CONVERSION_RECORD = Table(
    "CONVERSION_RECORD",
    Field("m", "float32", "matrix[3, 3], a row for each channel of the output", "012345678"),
    Field("before", "float32", "subtracted from each channel before the product", "012"),
    Field("after", "float32", "added to each channel after the product", "012"),
)
"""A record of float32: ``matrix @ (pixel - before) + after``."""
CONVERSION = Table(
    "CONVERSION",
    INPUTS,
    OUTPUTS,
    Field("pixels", "int64[samples]", "pixels of each sample"),
    Field("factors", "CONVERSION_RECORD", "the conversion"),
    Field("first", "int64", "place of red in a pixel: 2 for BGR, which is read as RGB, because sums of three are rounded in that order"),
    Field("pixel_bytes", "int64", "bytes of a pixel of the input"),
    SAMPLES,
)
"""``color_space_conversion``."""

EQUALIZE_RECORD = Table(
    "EQUALIZE_RECORD",
    Field("groups", "int64", "groups of planes, one behind the other in memory"),
    Field("planes", "int64", "planes of a group, whose elements alternate"),
    Field("pixels", "int64", "elements of a plane"),
    Field("first", "int64", "planes of the samples before it"),
)
EQUALIZE_GPU = Table(
    "EQUALIZE_GPU",
    INPUTS,
    OUTPUTS,
    Field("records", "EQUALIZE_RECORD[samples]", "planes of each sample"),
    Field("parts", "int64", "parts of a group of planes, one for each block of threads"),
    Field("histograms", "address", "uint32[planes of all samples * parts, 256]: by group, part, plane"),
    Field("tables", "address", "uint8[planes of all samples, 256]"),
    SAMPLES,
)
EQUALIZE = Table("EQUALIZE", INPUTS, OUTPUTS, Field("records", "EQUALIZE_RECORD[samples]", "planes of each sample"), SAMPLES)
