"""Compiled step of ``flip``: rows and planes in reverse order, pixels of a row in reverse order; any element type."""

from __future__ import annotations

import numpy as np

from ...compiled.intrinsics import copy_bytes, load_i64, view_i64, view_u8, view_u32
from ...compiled.step import inlined, step
from ...compiled.tables import laid_out
from ...device.launch import Launch
from ..base import Step, no_explanation
from ..moves.strided import move_launch
from ..moves.strided_tables import PIECE_HEAD
from .flip_tables import FLIP, FLIP_RECORD

at, word = FLIP.at, FLIP_RECORD.word
_AXES = 5  # Frames and leading channels, depth, height, width, bytes of a pixel.


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
    """Flip one sample; see ``flip_tables``."""
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


def make_flip_step(in_addresses: np.ndarray, out_addresses: np.ndarray, records: np.ndarray) -> Step:
    """The step for a batch; `records` are FLIP_RECORDs."""
    count = len(records)
    entries = FLIP.entries(inputs=in_addresses, outputs=out_addresses, records=records, samples=count)
    table, keep = laid_out(entries)

    def launches() -> list[Launch]:
        # A reversed axis starts at its last element and has a negative stride.
        bytes_at_once = 4 if not (records[:, word.pixel] % 4).any() else 1
        sides = [records[:, k] for k in (word.outer, word.depth, word.height, word.width)]
        turned = [np.zeros(count, np.int64), *(records[:, k] != 0 for k in (word.depthwise, word.vertical, word.horizontal))]
        pieces = np.zeros((count, 1, PIECE_HEAD.words + 3 * _AXES), np.int64)
        columns = pieces[:, 0, PIECE_HEAD.words :]
        extents, strides, targets = columns[:, :_AXES], columns[:, _AXES : 2 * _AXES], columns[:, 2 * _AXES :]
        extents[:, -1], strides[:, -1], targets[:, -1] = records[:, word.pixel] // bytes_at_once, bytes_at_once, bytes_at_once
        stride = records[:, word.pixel].copy()
        for axis in range(_AXES - 2, -1, -1):
            extents[:, axis], targets[:, axis] = sides[axis], stride
            strides[:, axis] = np.where(turned[axis], -stride, stride)
            pieces[:, 0, PIECE_HEAD.word.offset] += np.where(turned[axis], (sides[axis] - 1) * stride, 0)
            stride *= sides[axis]
        name = f"uint{8 * bytes_at_once}"
        types = ("IN", name), ("OUT", name)
        return [move_launch(in_addresses, out_addresses, pieces, 0, types, (bytes_at_once, bytes_at_once))]

    return Step(flip_step.address, table, no_explanation, keep=keep, launches=launches)
