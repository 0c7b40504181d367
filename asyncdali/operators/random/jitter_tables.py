"""Tables of ``jitter``."""

from __future__ import annotations

from ...compiled.tables import INPUTS, OUTPUTS, SAMPLES, Field, Table

JITTER_RECORD = Table(
    "JITTER_RECORD",
    Field("height", "int64", "rows"),
    Field("width", "int64", "pixels of a row"),
    Field("channels", "int64", "elements of a pixel"),
    Field("mask", "int64", "0: the image stays as it is"),
)
JITTER = Table(
    "JITTER",
    INPUTS,
    OUTPUTS,
    Field("records", "JITTER_RECORD[samples]", "extents and masks"),
    Field("degree", "int64", "numbers of displacements along an axis"),
    Field("per_pixel", "int64", "1: the channels of a pixel are displaced together"),
    Field("key", "uint64", "of the stream"),
    Field("counter", "uint64", "of the stream at the first sample", ("hi", "lo")),
    Field("phase", "uint64", "words of the counter's block that are used already"),
    SAMPLES,
)
