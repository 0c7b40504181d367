"""The step that copies frames of sequences, on the CPU and on a GPU: one block of memory per frame."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...batch import Batch
from ...compiled.intrinsics import copy_bytes, load_i64
from ...compiled.step import step
from ...device.launch import LINE, LINES_AT_ONCE, Kernel, Launch, grid_of
from ..base import Step, no_explanation
from .element_extract_tables import FRAME_COPY, FRAME_COPY_CUDA

at = FRAME_COPY.at
_KERNEL = Kernel(Path(__file__).with_suffix(".cu"), "frames")


@step
def frame_copy_step(context, sample, thread):
    """Copy one sample; see ``element_extract_tables``."""
    frames, counts, size = load_i64(context + at.frames), load_i64(context + at.counts), load_i64(context + at.frame_bytes)
    if load_i64(context + at.begins) != 0:
        frames += 8 * load_i64(load_i64(context + at.begins) + 8 * sample)
    size = load_i64(size + 8 * sample)
    source, out = load_i64(load_i64(context + at.inputs) + 8 * sample), load_i64(load_i64(context + at.outputs) + 8 * sample)
    for k in range(load_i64(counts + 8 * sample) if counts != 0 else load_i64(context + at.count)):
        copy_bytes(out + k * size, source + load_i64(frames + 8 * k) * size, size)
    return 0


def make_frame_copy_step(
    source: Batch, output: Batch, frame_bytes: np.ndarray, frames: np.ndarray, begins: np.ndarray | None, counts: np.ndarray | None
) -> Step:
    """The step for a batch; all arrays are int64. If `begins` and `counts` are None, each output has all of `frames`."""
    values = {
        "inputs": source.addresses, "outputs": output.addresses, "frames": frames, "begins": 0 if begins is None else begins,
        "counts": 0 if counts is None else counts, "count": len(frames), "frame_bytes": frame_bytes,
    }  # fmt: skip
    table, keep = FRAME_COPY.make(**values)
    made = Step(frame_copy_step.address, table, no_explanation, keep=keep)

    def launches() -> list[Launch]:
        samples, most = len(source), len(frames) if counts is None else int(counts.max(initial=0))
        lines = -(-int(frame_bytes.max(initial=0)) // (LINE * LINES_AT_ONCE)) + 1
        return [Launch(_KERNEL, FRAME_COPY_CUDA.entries(**values, samples=samples, most=most), grid_of(lines, samples * most))]

    made.launches = launches
    return made
