"""The compiled step of grid_mask."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from ...batch import Batch, storage_dtype
from ...compiled.convert_kernels import view
from ...compiled.intrinsics import load_i64, view_f32, view_i64
from ...compiled.step import Compiled, step_variant
from ...compiled.tables import laid_out
from ...device.launch import Kernel, Launch, element_type, grid_of
from ..base import Step, no_explanation
from .grid_mask_tables import GEOMETRY, GRID, GRID_MASK

at, shape, turned = GRID_MASK.at, GEOMETRY.word, GRID.word
_SOURCE = Path(__file__).with_name("grid_mask_kernels.cu")


@cache
def grid_mask_step(dtype: str) -> Compiled:
    """The step for the NumPy name of a dtype."""
    elements = view(dtype)
    zero = np.dtype(dtype).type(0)

    @step_variant(dtype)
    def grid_mask(context, sample, thread):
        geometry = view_i64(load_i64(context + at.geometry) + shape.size * sample, shape.words)
        planes, height, width, channels = geometry[shape.planes], geometry[shape.height], geometry[shape.width], geometry[shape.channels]
        count = planes * height * width * channels
        source = elements(load_i64(load_i64(context + at.inputs) + 8 * sample), count)
        out = elements(load_i64(load_i64(context + at.outputs) + 8 * sample), count)
        grid = view_f32(load_i64(context + at.grids) + 4 * turned.words * sample, turned.words)
        cosine, sine, ratio = grid[turned.cosine], grid[turned.sine], grid[turned.ratio]
        shift_x, shift_y = grid[turned.shift_x], grid[turned.shift_y]
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
    """The step for a batch; `geometry` are GEOMETRY records, `grid` are GRIDs."""
    geometry, grid = np.ascontiguousarray(geometry, np.int64), np.ascontiguousarray(grid, np.float32)
    entries = GRID_MASK.entries(inputs=source.addresses, outputs=output.addresses, geometry=geometry, grids=grid, samples=len(source))
    table, keep = laid_out(entries)
    step = Step(grid_mask_step(storage_dtype(source.dtype).name).address, table, no_explanation, keep=keep)
    name, count = element_type(storage_dtype(source.dtype)), len(source)
    kernel = Kernel(_SOURCE, "grid_mask", (("IN", name), ("OUT", name)))
    pixels = geometry[:, [shape.planes, shape.height, shape.width]].prod(axis=1)
    blocks = grid_of(int(pixels.max(initial=0)), count)
    step.launches = lambda: [Launch(kernel, entries, blocks)]
    return step
