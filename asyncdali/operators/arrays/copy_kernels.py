"""The compiled step of copy."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...compiled.intrinsics import load_i64, view_u8
from ...compiled.step import step
from ...device.launch import Kernel, Launch, grid_of

_KERNEL = Kernel(Path(__file__).with_suffix(".cu"), "copy")


@step
def copy_step(context, sample, thread):
    """Context: source addresses, destination addresses, sizes in bytes (int64[samples] each)."""
    size = load_i64(load_i64(context + 16) + 8 * sample)
    source = view_u8(load_i64(load_i64(context) + 8 * sample), size)
    destination = view_u8(load_i64(load_i64(context + 8) + 8 * sample), size)
    for k in range(size):
        destination[k] = source[k]
    return 0


def copy_launches(sources: np.ndarray, targets: np.ndarray, sizes: np.ndarray) -> list[Launch]:
    """The same for a GPU; int64[samples] each."""
    return [Launch(_KERNEL, (sources, targets, sizes, len(sizes)), grid_of(-(-int(sizes.max(initial=0)) // 8), len(sizes)))]
