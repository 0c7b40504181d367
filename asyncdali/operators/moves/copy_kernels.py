"""The compiled step of copy."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...compiled.intrinsics import copy_bytes, load_i64
from ...compiled.step import step
from ...device.launch import LINE, LINES_AT_ONCE, Kernel, Launch, grid_of
from ..base import Step, TableStep, no_explanation
from .copy import COPY

at = COPY.at
_KERNEL = Kernel(Path(__file__).with_suffix(".cu"), "copy")


@step
def copy_step(context, sample, thread):
    """Copy one sample; see ``copy.COPY``."""
    size = load_i64(load_i64(context + at.sizes) + 8 * sample)
    copy_bytes(load_i64(load_i64(context + at.outputs) + 8 * sample), load_i64(load_i64(context + at.inputs) + 8 * sample), size)
    return 0


def make_copy_step(sources: np.ndarray, targets: np.ndarray, sizes: np.ndarray) -> Step:
    """The step that copies `sizes` bytes from addresses to addresses; int64[samples] each."""
    entries = COPY.entries(inputs=sources, outputs=targets, sizes=sizes, samples=len(sizes))

    def launches() -> list[Launch]:
        return [Launch(_KERNEL, entries, grid_of(-(-int(sizes.max(initial=0)) // (LINE * LINES_AT_ONCE)), len(sizes)))]

    return TableStep(copy_step.address, entries, no_explanation, launches=launches)
