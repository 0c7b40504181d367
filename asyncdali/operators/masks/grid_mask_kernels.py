"""The compiled step of grid_mask. Loops over a row: one for the mask, one for the pixels. Each becomes vector instructions."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from ...batch import Batch, storage_dtype
from ...compiled.convert_kernels import storage, view
from ...compiled.intrinsics import load_i64, view_f32, view_i64, view_u8
from ...compiled.job_tables import THREAD
from ...compiled.step import Compiled, step_variant
from ...compiled.tables import laid_out
from ...device.launch import LINE, Kernel, Launch, element_type, grid_of
from ..base import Step, no_explanation
from .grid_mask_tables import GEOMETRY, GRID, GRID_MASK

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


def make_step(source: Batch, output: Batch, geometry: np.ndarray, grid: np.ndarray) -> Step:
    """The step for a batch; `geometry` are GEOMETRY records, `grid` are GRIDs."""
    geometry, grid = np.ascontiguousarray(geometry, np.int64), np.ascontiguousarray(grid, np.float32)
    entries = GRID_MASK.entries(
        inputs=source.addresses, outputs=output.addresses, geometry=geometry, grids=grid, samples=len(source), scratch=0
    )
    table, keep = laid_out(entries)
    scratch, field = int((geometry[:, shape.width] * (1 + geometry[:, shape.channels])).max(initial=0)), GRID_MASK.word.scratch
    function = grid_mask_step(storage_dtype(source.dtype).name).address
    step = Step(function, table, no_explanation, scratch, field, keep)
    name, count = element_type(storage_dtype(source.dtype)), len(source)
    by_lines = source.itemsize == 1 and bool((geometry[:, shape.channels] == 3).all())
    kernel = Kernel(_SOURCE, "grid_mask_three_bytes" if by_lines else "grid_mask", (("IN", name), ("OUT", name)))
    pixels = geometry[:, [shape.planes, shape.height, shape.width]].prod(axis=1)
    largest = int(pixels.max(initial=0))
    blocks = grid_of(-(-largest // LINE) + 1 if by_lines else largest, count)
    step.launches = lambda: [Launch(kernel, entries, blocks)]
    return step
