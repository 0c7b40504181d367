"""Images warped by a displacement of every pixel: source positions, and the pixels there. Positions are float32."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ...compiled import kinds
from ...compiled.convert_kernels import view
from ...compiled.intrinsics import (
    address,
    c_function,
    copy_bytes,
    larger,
    load_f32,
    load_i64,
    local_array,
    smaller,
    view_f32,
    view_i64,
    view_u8,
)
from ...compiled.job_tables import THREAD
from ...compiled.step import Compiled, inlined, step_variant
from ...compiled.vectors import prefetch
from .rotate_kernels import make_edge
from .sphere_water import DISPLACEMENT, IMAGE

_F = np.float32
_sinf = c_function("sinf", kinds.float32, kinds.float32)
_cosf = c_function("cosf", kinds.float32, kinds.float32)
at, word, thread_at = DISPLACEMENT.at, IMAGE.word, THREAD.at
_AHEAD, _EVERY = 8, 7  # Rows of the input that are fetched early, at every eighth pixel; see rotate_kernels.py.
_TILE = 64
_new_places, _new_bytes = local_array(np.int64, _TILE), local_array(np.uint8, 8)
ROWS_OF_SCRATCH = 3
"""Number of float32 arrays with an element for each column of the widest image."""

@inlined
def _nothing(row, height, width, parameters, kept):
    pass


@inlined
def _sphere(y, height, width, parameters, kept, xs, ys):
    """Source positions, with pixel centres at halves. The further a pixel is from the centre, the further outside its source lies."""
    half = _F(larger(width // 2, height // 2))
    middle_x, middle_y = _F(width) / _F(2), _F(height) / _F(2)
    dy = _F(_F(y) + _F(0.5)) - middle_y
    for x in range(width):
        dx = _F(_F(x) + _F(0.5)) - middle_x
        part = _F(_F(np.sqrt(_F(_F(dx * dx) + _F(dy * dy)))) / half)
        xs[x] = _F(middle_x + _F(part * dx))
        ys[x] = _F(middle_y + _F(part * dy))


@inlined
def _water_columns(row, height, width, parameters, kept):
    """Values that all rows share: the displacement along y of each column."""
    amplitude, frequency, phase = load_f32(parameters + 4), load_f32(parameters + 12), load_f32(parameters + 20)
    for x in range(width):
        kept[x] = _F(amplitude * _cosf(_F(_F(frequency * _F(x)) + phase)))


@inlined
def _water(y, height, width, parameters, kept, xs, ys):
    amplitude, frequency, phase = load_f32(parameters), load_f32(parameters + 8), load_f32(parameters + 16)
    shift = _F(amplitude * _sinf(_F(_F(frequency * _F(y)) + phase)))
    for x in range(width):
        xs[x] = _F(_F(x) + shift)
        ys[x] = _F(_F(y) + kept[x])


_WARPS: dict[str, Any] = {"sphere": (_nothing, _sphere), "water": (_water_columns, _water)}


@cache
def displacement_step(warp: str, dtype: str) -> Compiled:
    """The step of "sphere" or "water" for the NumPy name of a dtype."""
    begin, positions = _WARPS[warp]
    edge, elements = make_edge(dtype, dtype), view(dtype)
    size = np.dtype(dtype).itemsize

    @inlined
    def as_byte(fill):
        one = _new_bytes()
        typed = elements(address(one), 1)
        typed[0] = fill
        return one[0]

    @inlined
    def nearest(source, out, height, width, xs, ys, fill):
        """A row of pixels of three bytes. Their addresses are computed first, in a vectorised loop."""
        places, right, bottom, pixels = _new_places(), _F(width), _F(height), view_u8(out, 3 * width)
        known = view_u8(source, 3 * width * height)
        for first in range(0, width, _TILE):
            count = smaller(width - first, _TILE)
            px, py = view_f32(address(xs) + 4 * first, count), view_f32(address(ys) + 4 * first, count)
            for i in range(count):
                x, y = px[i], py[i]
                there = (x >= _F(0)) & (x < right) & (y >= _F(0)) & (y < bottom)
                x, y = x if there else _F(0), y if there else _F(0)
                place = np.int64(np.int32(y)) * width + np.int64(np.int32(x))
                places[i] = 3 * place if there else np.int64(-1)
            for i in range(count):
                at, to = places[i], np.uint64(3 * (first + i))
                second, third = to + np.uint64(1), to + np.uint64(2)
                if at >= 0:
                    begin = np.uint64(at)
                    if i & _EVERY == 0:
                        prefetch(source + at + _AHEAD * 3 * width)
                    pixels[to], pixels[second] = known[begin], known[begin + np.uint64(1)]
                    pixels[third] = known[begin + np.uint64(2)]
                else:
                    pixels[to] = pixels[second] = pixels[third] = fill

    @step_variant(warp, dtype)
    def displace(context, sample, thread):
        shape = view_i64(load_i64(context + at.shapes) + word.size * sample, word.words)
        height, width, channels = shape[word.height], shape[word.width], shape[word.channels]
        source, out = load_i64(load_i64(context + at.inputs) + 8 * sample), load_i64(load_i64(context + at.outputs) + 8 * sample)
        if load_i64(load_i64(context + at.masks) + 8 * sample) == 0:
            copy_bytes(out, source, height * width * channels * size)
            return 0
        fill, linear = load_f32(load_i64(context + at.fill)), load_i64(context + at.linear) != 0
        parameters = load_i64(context + at.parameters)
        scratch = load_i64(thread + thread_at.scratch) + load_i64(context + at.scratch)
        xs, ys, kept = view_f32(scratch, width), view_f32(scratch + 4 * width, width), view_f32(scratch + 8 * width, width)
        begin(0, height, width, parameters, kept)
        # The reach of taps to the left and to the right of a position. A NaN position lies outside.
        reach = _F(0.5) if linear else _F(0)
        right, bottom = _F(width) + reach, _F(height) + reach
        fill_byte = as_byte(fill) if size == 1 else np.uint8(0)
        for y in range(height):
            positions(y, height, width, parameters, kept, xs, ys)
            if size == 1 and channels == 3 and not linear:
                nearest(source, out, height, width, xs, ys, fill_byte)
                out += 3 * width
                continue
            for x in range(width):
                px, py = xs[x], ys[x]
                if -reach <= px < right and -reach <= py < bottom:
                    edge(source, px - reach, py - reach, height, width, channels, fill, False, linear, out)
                else:
                    to = elements(out, channels)
                    for c in range(channels):
                        to[c] = fill
                out += channels * size
        return 0

    return displace


