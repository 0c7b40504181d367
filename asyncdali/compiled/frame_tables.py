"""Table of ``frames_step``."""

from __future__ import annotations

from .tables import INPUTS, OUTPUTS, Field, Table

FRAMES = Table(
    "FRAMES",
    Field("function", "address", "of the step that runs for every frame"),
    Field("context", "address", "of that step's table, which is about all frames of the batch"),
    Field("firsts", "int64[samples]", "number in the batch of each sample's first frame"),
    Field("counts", "int64[samples]", "frames of each sample"),
    INPUTS,
    Field("input_bytes", "int64[samples]", "bytes of one frame of the input; 0: all frames read the same image"),
    Field("input_frames", "addresses", "of the input's frames; written by the step"),
    OUTPUTS,
    Field("output_bytes", "int64[samples]", "bytes of one frame of the output"),
    Field("output_frames", "addresses", "of the output's frames; written by the step"),
    Field("others", "int64", "number of further inputs"),
    Field("other_inputs", "LATE_INPUT[others]", "where their frames are"),
)
"""The table of the step."""

LATE_INPUT = Table(
    "LATE_INPUT",
    INPUTS,
    Field("bytes", "int64[samples]", "bytes of one frame; 0: all frames read the same"),
    Field("frames", "addresses", "of the frames; written by the step"),
)
"""A further input whose addresses are known when the step runs."""
