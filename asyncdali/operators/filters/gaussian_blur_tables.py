"""Tables of separable filters."""

from __future__ import annotations

from ...compiled.tables import INPUTS, OUTPUTS, SAMPLES, Field, Table
from .planes_tables import AXES

WINDOW = Table(
    "WINDOW",
    Field("weights", "float32[taps]", "of the window"),
    Field("taps", "int64", "weights of the window"),
)
"""The window along an axis. On the host `weights` is an address, on a GPU the index of the window's first weight."""

WINDOWS = Table("WINDOWS", *(Field(axis, "WINDOW", f"along the {axis}", tuple(field.name for field in WINDOW.fields)) for axis in AXES))
"""The windows of a term of a sample."""

GAUSSIANS = Table(
    "GAUSSIANS",
    Field("rows", "int64", "samples"),
    Field("axes", "int64", "data axes of a sample"),
    Field("given_sigmas", "float32[]", "standard deviations; 0: it follows from the size"),
    Field("sigmas_step", "int64", "bytes from a sample's to the next one's, and from an axis to the next one", ("row", "axis")),
    Field("given_sizes", "int64[]", "elements of the windows; 0: they follow from the deviation"),
    Field("sizes_step", "int64", "bytes from a sample's to the next one's, and from an axis to the next one", ("row", "axis")),
    Field("sigmas", "float32[rows, axes]", "result: the ones used"),
    Field("described", "WINDOWS[rows]", "result: index of each window's first weight, and its size"),
    Field("most", "int64", "result: elements of the largest window"),
    Field("weights", "float32[]", "result of the second call: weights of all windows"),
)
"""Arguments and results of ``gaussian_blur_window_kernels``."""

SURVEY = Table(
    "SURVEY",
    Field("height_taps", "int64", "elements of the highest window"),
    Field("longest", "int64", "elements of the longest window along the height and the width"),
    Field("same_channels", "int64", "1: all samples have as many channels as the first"),
    Field("same_taps", "int64", "1: all windows have the height and the width of the first"),
)
"""Results of ``gaussian_blur_survey_kernels.survey``."""

_SHARED = (
    INPUTS,
    OUTPUTS,
    Field("records", "PLANES[samples]", "extents"),
    Field("windows", "WINDOWS[samples, terms]", "of each term"),
    Field("factors", "float32[samples, terms]", "factor of each term"),
    Field("terms", "int64", "separable filters that are added up"),
)
SEPARABLE = Table(
    "SEPARABLE",
    *_SHARED,
    Field("scratch", "int64", "offset of the step's scratch in the thread's"),
    Field("most_taps", "int64", "taps of the longest window"),
    Field("axes", "int64", "data axes; with 3 the windows along the depth count, however deep a sample is"),
)
"""The compiled step's table."""

SEPARABLE_TILE = Table("SEPARABLE_TILE", *_SHARED, Field("weights", "float32[]", "of all windows"), SAMPLES)
"""Table of the kernel ``tile``, which filters all axes in one launch."""

SEPARABLE_LINE = Table(
    "SEPARABLE_LINE",
    *SEPARABLE_TILE.fields,
    Field("source", "float32[elements of all samples]", "intermediate results of the previous axis; 0: the input"),
    Field("target", "float32[elements of all samples]", "where intermediate results go; 0: the output"),
    Field("sums", "float32[elements of all samples]", "sums of terms"),
    Field("before", "int64[samples]", "elements of the samples before"),
    Field("axis", "int64", "index in AXES"),
    Field("term", "int64", "number of the term"),
)
"""Table of the kernel ``line``: one axis of one term."""
