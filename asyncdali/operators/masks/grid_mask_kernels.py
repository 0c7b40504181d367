"""The compiled step of grid_mask."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from ...batch import Batch, storage_dtype
from ...compiled.intrinsics import load_f32, load_i64
from ...compiled.step import Compiled, step_variant
from ...device.launch import Kernel, Launch, element_type, grid_of
from ..arrays.convert_kernels import view
from ..base import Step, context_table, no_explanation

# Context table: 0 input addresses, 1 output addresses, 2 geometry int64[samples, 4] (planes, height, width, channels), 3 grid
# float32[samples, 5] (cosine and sine by tile, shifts by tile, ratio).

_SOURCE = Path(__file__).with_name("grid_mask_kernels.cu")


@cache
def grid_mask_step(dtype: str) -> Compiled:
    """The step for the numpy name of a dtype."""
    elements = view(dtype)
    zero = np.dtype(dtype).type(0)

    @step_variant(dtype)
    def grid_mask(context, sample, thread):
        geometry, grid = load_i64(context + 16) + 32 * sample, load_i64(context + 24) + 20 * sample
        planes, height = load_i64(geometry), load_i64(geometry + 8)
        width, channels = load_i64(geometry + 16), load_i64(geometry + 24)
        count = planes * height * width * channels
        source = elements(load_i64(load_i64(context) + 8 * sample), count)
        out = elements(load_i64(load_i64(context + 8) + 8 * sample), count)
        cosine, sine, ratio = load_f32(grid), load_f32(grid + 4), load_f32(grid + 16)
        shift_x, shift_y = load_f32(grid + 8), load_f32(grid + 12)
        e = 0
        for _ in range(planes):
            for y in range(height):
                for x in range(width):
                    across = np.float32(x) * cosine - np.float32(y) * sine + shift_x
                    down = np.float32(x) * sine + np.float32(y) * cosine + shift_y
                    black = across - np.floor(across) < ratio and down - np.floor(down) < ratio
                    for c in range(channels):
                        out[e + c] = zero if black else source[e + c]
                    e += channels
        return 0

    return grid_mask


def make_step(source: Batch, output: Batch, geometry: np.ndarray, grid: np.ndarray) -> Step:
    """The step for a batch; see the context table."""
    geometry, grid = np.ascontiguousarray(geometry, np.int64), np.ascontiguousarray(grid, np.float32)
    values = (source.addresses, output.addresses, geometry, grid)
    table, keep = context_table(values)
    step = Step(grid_mask_step(storage_dtype(source.dtype).name).address, table, no_explanation, keep=keep)
    name, count = element_type(storage_dtype(source.dtype)), len(source)
    kernel = Kernel(_SOURCE, "grid_mask", (("IN", name), ("OUT", name)))
    blocks = grid_of(int(geometry.prod(axis=1).max(initial=0)), count)
    step.launches = lambda: [Launch(kernel, (*values, count), blocks)]
    return step
