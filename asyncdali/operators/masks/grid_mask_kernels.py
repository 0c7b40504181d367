"""The compiled step of grid_mask. Loops over a row: one for the mask, one for the pixels. Each becomes vector instructions."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from ...compiled.convert_kernels import storage, view
from ...compiled.intrinsics import load_i64, view_f32, view_i64, view_u8
from ...compiled.job_tables import THREAD
from ...compiled.step import Compiled, step_variant
from .grid_mask import GEOMETRY, GRID, GRID_MASK

at, shape, turned, record = GRID_MASK.at, GEOMETRY.word, GRID.word, THREAD.at
_SOURCE = Path(__file__).with_name("grid_mask_kernels.cu")


@cache
def grid_mask_step(dtype: str) -> Compiled:
    """The step for the NumPy name of a dtype."""
    elements, size = view(dtype), storage(dtype).itemsize
    zero = storage(dtype).type(0)

    @step_variant(dtype)
    def grid_mask(context, sample, thread):
        geometry = view_i64(load_i64(context + at.geometry) + shape.size * sample, shape.words)
        planes, height, width, channels = geometry[shape.planes], geometry[shape.height], geometry[shape.width], geometry[shape.channels]
        row = width * channels
        begin, to = load_i64(load_i64(context + at.inputs) + 8 * sample), load_i64(load_i64(context + at.outputs) + 8 * sample)
        grid = view_f32(load_i64(context + at.grids) + 4 * turned.words * sample, turned.words)
        cosine, sine, ratio = grid[turned.cosine], grid[turned.sine], grid[turned.ratio]
        shift_x, shift_y = grid[turned.shift_x], grid[turned.shift_y]
        scratch = load_i64(thread + record.scratch) + load_i64(context + at.scratch)
        mask, kept = view_u8(scratch, width), view_u8(scratch + (width if channels != 1 else 0), row)
        for _ in range(planes):
            for y in range(height):
                for x in range(width):
                    across = np.float32(x) * cosine - np.float32(y) * sine + shift_x
                    down = np.float32(x) * sine + np.float32(y) * cosine + shift_y
                    black = (across - np.floor(across) < ratio) & (down - np.floor(down) < ratio)
                    mask[x] = 0 if black else 1
                # The mask is repeated for the channels, because a loop over elements becomes vector instructions.
                if channels == 3:
                    for x in range(width):
                        kept[3 * x] = kept[3 * x + 1] = kept[3 * x + 2] = mask[x]
                elif channels != 1:
                    for x in range(width):
                        for k in range(channels):
                            kept[x * channels + k] = mask[x]
                source, out = elements(begin, row), elements(to, row)
                for i in range(row):
                    element = source[i]
                    out[i] = element if kept[i] != 0 else zero
                begin += row * size
                to += row * size
        return 0

    return grid_mask


