"""Table of the step that copies frames of sequences: one for compiled steps and for a GPU's kernel."""

from __future__ import annotations

from ...compiled.tables import INPUTS, OUTPUTS, SAMPLES, Field, Table

FRAME_COPY = Table(
    "FRAME_COPY",
    INPUTS,
    OUTPUTS,
    Field("frames", "int64[all]", "numbers of the frames that are copied"),
    Field("begins", "int64[samples]", "index of the sample's first frame in `frames`; 0: all samples have the same frames"),
    Field("counts", "int64[samples]", "frames of each output; 0: `count`"),
    Field("count", "int64", "frames of each output, where `counts` is 0"),
    Field("frame_bytes", "int64[samples]", "bytes of a frame"),
)

FRAME_COPY_CUDA = FRAME_COPY.extended(SAMPLES, Field("most", "int64", "frames of the longest output"))
