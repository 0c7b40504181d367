"""Compiled steps that mirror coordinates and boxes (float32)."""

from __future__ import annotations

import numpy as np

from ...compiled.intrinsics import load_i64, view_f32
from ...compiled.step import step
from .mirror_tables import BB_FLIP, COORD_FLIP

coord, box = COORD_FLIP.at, BB_FLIP.at


@step
def coord_step(context, sample, thread):
    """The points of a sample. Mirrored coordinates are subtracted from their addend."""
    points, length = load_i64(load_i64(context + coord.points) + 8 * sample), load_i64(context + coord.length)
    source = view_f32(load_i64(load_i64(context + coord.inputs) + 8 * sample), points * length)
    out = view_f32(load_i64(load_i64(context + coord.outputs) + 8 * sample), points * length)
    mirrors = view_f32(load_i64(context + coord.mirrors) + 8 * length * sample, 2 * length)
    for k in range(length):
        factor, addend = mirrors[2 * k], mirrors[2 * k + 1]
        for i in range(k, points * length, length):
            out[i] = source[i] if factor > 0 else np.float32(addend - source[i])
    return 0


@step
def box_step(context, sample, thread):
    """The boxes of a sample."""
    count, flags = load_i64(load_i64(context + box.boxes) + 8 * sample), load_i64(load_i64(context + box.flags) + 8 * sample)
    source = view_f32(load_i64(load_i64(context + box.inputs) + 8 * sample), 4 * count)
    out = view_f32(load_i64(load_i64(context + box.outputs) + 8 * sample), 4 * count)
    corners, one = load_i64(context + box.corners), np.float32(1)
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
