"""Tables of ``nonsilent_region``."""

from __future__ import annotations

from ...compiled.tables import INPUTS, SAMPLES, Field, Table

_COUNTS = Field("counts", "int64[samples]", "elements of each sample")

NONSILENT_CUT = Table(
    "NONSILENT_CUT",
    Field("reference", "float64", "reference power; 0: the largest of each sample"),
    Field("part", "float64", "part of the reference power that is the cut-off"),
)
"""A record of float64."""
NONSILENT = Table(
    "NONSILENT",
    INPUTS,
    Field("starts", "addresses", "of the first output's samples, int32"),
    Field("lengths", "addresses", "of the second output's samples, int32"),
    _COUNTS,
    Field("window", "int64", "samples of a window"),
    Field("stretch", "int64", "windows of a stretch, after which sums restart; 0: one stretch"),
    Field("lead", "int64", "windows of the first stretch, if that is another number; otherwise 0"),
    Field("cut", "NONSILENT_CUT", "the cut-off"),
    Field("scratch", "int64", "offset of the step's own scratch in the thread's"),
)
NONSILENT_NOTE = Table(
    "NONSILENT_NOTE",
    Field("first", "float64", "sum of the squares of the chunk's first window"),
    Field("largest", "float64", "the largest of the chunk's sums"),
)
"""The summary of a chunk of windows: a record of float64."""
NONSILENT_GPU = Table(
    "NONSILENT_GPU",
    *NONSILENT.fields[:-1],
    Field("stretches", "int64", "stretches of the longest sample"),
    SAMPLES,
    Field("chunks", "int64", "chunks of a stretch"),
    Field("notes", "NONSILENT_NOTE[samples, stretches, chunks]", "summaries of all chunks"),
)
"""For a GPU's kernels: here a stretch has its actual number of windows."""
