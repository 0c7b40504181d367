"""Compiled step of ``flip``: rows and planes in reverse order, pixels of a row in reverse order; any element type."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...compiled.intrinsics import load_i64, view_i64, view_u8, view_u32
from ...compiled.step import inlined, step
from ...device.launch import Kernel, Launch, grid_of
from ..base import Step, context_table, no_explanation

# Context table: 0 input addresses, 1 output addresses, 2 records int64[samples, 8].
#
# Record: 0 outer (frames, leading channels), 1 depth, 2 height, 3 width, 4 bytes per pixel, 5 depthwise, 6 vertical, 7 horizontal.
RECORD_LENGTH = 8
_SOURCE = Path(__file__).with_suffix(".cu")



@inlined
def _reverse_row(source, out, width, pixel):
    """`width` pixels of `pixel` bytes in reverse order. Unsigned indices have no wrap-around to handle."""
    if pixel == 1:
        a, b = view_u8(source, width), view_u8(out, width)
        for x in range(width):
            b[np.uint64(width - 1 - x)] = a[x]
    elif pixel == 3:
        a, b = view_u8(source, 3 * width), view_u8(out, 3 * width)
        for x in range(width):
            at = np.uint64(3 * (width - 1 - x))
            b[at] = a[3 * x]
            b[at + np.uint64(1)] = a[3 * x + 1]
            b[at + np.uint64(2)] = a[3 * x + 2]
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
    """See the table at the top."""
    r = view_i64(load_i64(context + 16) + 8 * RECORD_LENGTH * sample, RECORD_LENGTH)
    source = load_i64(load_i64(context) + 8 * sample)
    out = load_i64(load_i64(context + 8) + 8 * sample)
    depth, height, width, pixel = r[1], r[2], r[3], r[4]
    row = width * pixel
    for outer in range(r[0]):
        for z in range(depth):
            from_z = depth - 1 - z if r[5] else z
            for y in range(height):
                from_y = height - 1 - y if r[6] else y
                at = source + ((outer * depth + from_z) * height + from_y) * row
                to = out + ((outer * depth + z) * height + y) * row
                if r[7]:
                    _reverse_row(at, to, width, pixel)
                else:
                    a, b = view_u8(at, row), view_u8(to, row)
                    for k in range(row):
                        b[k] = a[k]
    return 0


def make_flip_step(in_addresses: np.ndarray, out_addresses: np.ndarray, records: np.ndarray) -> Step:
    """The step for a batch; records int64[samples, 8] as above."""
    table, keep = context_table((in_addresses, out_addresses, records))

    def launches() -> list[Launch]:
        count = len(records)
        largest = int(records[:, :4].prod(axis=1).max(initial=0))
        return [Launch(Kernel(_SOURCE, "flip"), (in_addresses, out_addresses, records, count), grid_of(largest, count))]

    return Step(flip_step.address, table, no_explanation, keep=keep, launches=launches)
