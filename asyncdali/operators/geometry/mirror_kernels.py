"""Compiled steps that mirror coordinates and boxes (float32)."""

from __future__ import annotations

import numpy as np

from ...compiled.intrinsics import load_i64, view_f32
from ...compiled.step import step


@step
def coord_step(context, sample, thread):
    """Context: input addresses, output addresses, points int64[samples], coordinates per point, table float32[samples, coordinates, 2].

    Table: factor (1, or -1 to mirror) and addend of each coordinate.
    """
    points, length = load_i64(load_i64(context + 16) + 8 * sample), load_i64(context + 24)
    source = view_f32(load_i64(load_i64(context) + 8 * sample), points * length)
    out = view_f32(load_i64(load_i64(context + 8) + 8 * sample), points * length)
    table = view_f32(load_i64(context + 32) + 8 * length * sample, 2 * length)
    for k in range(length):
        factor, addend = table[2 * k], table[2 * k + 1]
        for i in range(k, points * length, length):
            out[i] = source[i] if factor > 0 else np.float32(addend - source[i])
    return 0


@step
def box_step(context, sample, thread):
    """Context: input addresses, output addresses, boxes int64[samples], flags int64[samples] (1: horizontal, 2: vertical), whether boxes
    are given by their corners (else corner and extents)."""
    count, flags = load_i64(load_i64(context + 16) + 8 * sample), load_i64(load_i64(context + 24) + 8 * sample)
    source = view_f32(load_i64(load_i64(context) + 8 * sample), 4 * count)
    out = view_f32(load_i64(load_i64(context + 8) + 8 * sample), 4 * count)
    corners, one = load_i64(context + 32), np.float32(1)
    for i in range(0, 4 * count, 4):
        for axis in range(2):
            low, high = source[i + axis], source[i + axis + 2]
            if corners == 0:
                high = np.float32(low + high)
            if flags & (1 << axis):
                low, high = np.float32(one - high), np.float32(one - low)
            out[i + axis] = low
            out[i + axis + 2] = high if corners != 0 else np.float32(high - low)
    return 0
