"""Compiled step of ``flip``: rows and planes in reverse order, pixels of a row in reverse order; any element type."""

from __future__ import annotations

import numpy as np

from ...compiled.intrinsics import copy_bytes, load_i64, view_i64, view_u8, view_u32
from ...compiled.step import inlined, step
from .flip import FLIP, FLIP_RECORD

at, word = FLIP.at, FLIP_RECORD.word


@inlined
def _reverse_row(source, out, width, pixel):
    """`width` pixels of `pixel` bytes in reverse order. Unsigned indices need no wrap-around."""
    if pixel == 1:
        a, b = view_u8(source, width), view_u8(out, width)
        for x in range(width):
            b[np.uint64(width - 1 - x)] = a[x]
    elif pixel == 3:
        a, b = view_u8(source, 3 * width), view_u8(out, 3 * width)
        for x in range(width):
            last = np.uint64(3 * (width - 1 - x))
            b[last] = a[3 * x]
            b[last + np.uint64(1)] = a[3 * x + 1]
            b[last + np.uint64(2)] = a[3 * x + 2]
    elif pixel % 4 == 0:
        words = pixel // 4
        c, d = view_u32(source, words * width), view_u32(out, words * width)
        for x in range(width):
            for k in range(words):
                d[np.uint64((width - 1 - x) * words + k)] = c[x * words + k]
    else:
        a, b = view_u8(source, pixel * width), view_u8(out, pixel * width)
        for x in range(width):
            for k in range(pixel):
                b[np.uint64((width - 1 - x) * pixel + k)] = a[x * pixel + k]


@step
def flip_step(context, sample, thread):
    """Flip one sample; see ``flip.FLIP``."""
    r = view_i64(load_i64(context + at.records) + word.size * sample, word.words)
    source = load_i64(load_i64(context + at.inputs) + 8 * sample)
    out = load_i64(load_i64(context + at.outputs) + 8 * sample)
    depth, height, width, pixel = r[word.depth], r[word.height], r[word.width], r[word.pixel]
    row = width * pixel
    for outer in range(r[word.outer]):
        for z in range(depth):
            from_z = depth - 1 - z if r[word.depthwise] else z
            for y in range(height):
                from_y = height - 1 - y if r[word.vertical] else y
                source_row = source + ((outer * depth + from_z) * height + from_y) * row
                to = out + ((outer * depth + z) * height + y) * row
                if r[word.horizontal]:
                    _reverse_row(source_row, to, width, pixel)
                else:
                    copy_bytes(to, source_row, row)
    return 0


