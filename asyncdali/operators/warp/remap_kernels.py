"""Compiled step of ``experimental.remap``: maps give the source position of every pixel."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from ...batch import Batch, storage_dtype
from ...compiled.convert_kernels import converter
from ...compiled.intrinsics import load_i64, view_f32, view_i64, view_of
from ...compiled.step import Compiled, inlined, step_variant
from ...compiled.tables import laid_out
from ...device.launch import Kernel, Launch, element_type, grid_of
from ..base import Step, no_explanation
from .remap_tables import REMAP, REMAP_RECORD

at, word = REMAP.at, REMAP_RECORD.word
_SOURCE = Path(__file__).with_suffix(".cu")
_F = np.float32


@inlined
def _tap(pixels, y, x, c, height, width, channels):
    """An element as float32; 0 outside."""
    if 0 <= y < height and 0 <= x < width:
        return _F(pixels[(y * width + x) * channels + c])
    return _F(0)


@cache
def remap_step(dtype: str) -> Compiled:
    """The step for the NumPy name of a dtype."""
    kind = np.dtype(dtype)
    view, convert, itemsize = view_of(kind), converter("float32", dtype), kind.itemsize

    @step_variant(dtype)
    def remap(context, sample, thread):
        r = view_i64(load_i64(context + at.records) + word.size * sample, word.words)
        height, width, channels = r[word.height], r[word.width], r[word.channels]
        count = height * width
        source = load_i64(load_i64(context + at.inputs) + 8 * sample)
        target = load_i64(load_i64(context + at.outputs) + 8 * sample)
        map_x = load_i64(load_i64(context + at.maps_x) + 8 * sample)
        map_y = load_i64(load_i64(context + at.maps_y) + 8 * sample)
        linear = load_i64(context + at.linear) != 0
        shift = _F(0.5) if load_i64(context + at.corner) != 0 else _F(0)
        for _ in range(r[word.frames]):
            pixels, out = view(source, count * channels), view(target, count * channels)
            xs, ys = view_f32(map_x, count), view_f32(map_y, count)
            for i in range(count):
                x, y = _F(xs[i] - shift), _F(ys[i] - shift)
                # Written this way, NaN lies outside.
                if not (x > _F(-1) and x < _F(width) and y > _F(-1) and y < _F(height)):
                    for c in range(channels):
                        out[i * channels + c] = 0
                    continue
                if not linear:
                    column, row = np.int64(np.floor(x + _F(0.5))), np.int64(np.floor(y + _F(0.5)))
                    inside = 0 <= column < width and 0 <= row < height
                    for c in range(channels):
                        out[i * channels + c] = pixels[(row * width + column) * channels + c] if inside else 0
                    continue
                column, row = np.int64(np.floor(x)), np.int64(np.floor(y))
                fx, fy = _F(x - _F(column)), _F(y - _F(row))
                for c in range(channels):
                    a, b = _tap(pixels, row, column, c, height, width, channels), _tap(pixels, row, column + 1, c, height, width, channels)
                    upper = _F(a + _F(_F(b - a) * fx))
                    a = _tap(pixels, row + 1, column, c, height, width, channels)
                    b = _tap(pixels, row + 1, column + 1, c, height, width, channels)
                    lower = _F(a + _F(_F(b - a) * fx))
                    out[i * channels + c] = convert(_F(upper + _F(_F(lower - upper) * fy)))
            source += itemsize * count * channels
            target += itemsize * count * channels
            map_x += 4 * r[word.step_x]
            map_y += 4 * r[word.step_y]
        return 0

    return remap


def make_remap_step(inputs: list[Batch], output: Batch, records: np.ndarray, linear: bool, corner: bool) -> Step:
    """The step for a batch of images, maps of columns and maps of rows; `records` are REMAP_RECORDs."""
    source, map_x, map_y = inputs
    entries = REMAP.entries(
        inputs=source.addresses, outputs=output.addresses, maps_x=map_x.addresses, maps_y=map_y.addresses, records=records,
        linear=linear, corner=corner, samples=len(records),
    )  # fmt: skip
    table, keep = laid_out(entries)
    name = storage_dtype(source.dtype).name

    def launches() -> list[Launch]:
        largest = int(records[:, : word.channels].prod(axis=1).max(initial=0))
        return [Launch(Kernel(_SOURCE, "remap", (("IN", element_type(name)),)), entries, grid_of(largest, len(records)))]

    return Step(remap_step(name).address, table, no_explanation, keep=keep, launches=launches)
