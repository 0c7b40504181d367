"""Table of the step that puts frames together (``frame_kernels``)."""

from __future__ import annotations

from ...compiled.tables import OUTPUTS, Field, Table

COPY_FRAMES = Table(
    "COPY_FRAMES",
    Field("frames", "int64[samples, length]", "addresses of the frames of each sequence"),
    Field("length", "int64", "frames of a sequence"),
    Field("sizes", "int64[samples]", "bytes of each frame of the sequence"),
    OUTPUTS,
)
