"""Histograms made flat, plane by plane."""

from __future__ import annotations

import numpy as np

from ...compiled.intrinsics import load_i64, local_array, view_u8
from ...compiled.step import inlined, step

_VALUES = 256
_histogram = local_array(np.int64, _VALUES)
_table = local_array(np.uint8, _VALUES)

# Context table: 0 input addresses, 1 output addresses, 2 records int64[samples, 3]: groups of planes that follow each other in memory,
# planes of a group (which lie element by element beside each other), elements of a plane.


@inlined
def _fill_table(histogram, table, count):
    """What each value becomes: its rank among the elements, the least one's being 0 and the largest one's 255. A single value stays."""
    value = 0
    while histogram[value] == 0:
        value += 1
    others = count - histogram[value]
    if others == 0:
        table[value] = value
        return
    scale = np.float32(255) / np.float32(others)
    before = np.int64(0)
    table[value] = 0
    for k in range(value + 1, _VALUES):
        before += histogram[k]
        table[k] = np.uint8(np.int64(np.rint(np.float32(np.float32(before) * scale))))


@step
def equalize_step(context, sample, thread):
    """equalize: UINT8 images and sequences."""
    record = load_i64(context + 16) + 24 * sample
    groups, planes, count = load_i64(record), load_i64(record + 8), load_i64(record + 16)
    size = planes * count
    histogram, table = _histogram(), _table()
    if count == 0:
        return 0
    for group in range(groups):
        source = view_u8(load_i64(load_i64(context) + 8 * sample) + group * size, size)
        out = view_u8(load_i64(load_i64(context + 8) + 8 * sample) + group * size, size)
        for plane in range(planes):
            for k in range(_VALUES):
                histogram[k] = 0
            for i in range(count):
                histogram[source[plane + i * planes]] += 1
            _fill_table(histogram, table, count)
            for i in range(count):
                out[plane + i * planes] = table[source[plane + i * planes]]
    return 0
