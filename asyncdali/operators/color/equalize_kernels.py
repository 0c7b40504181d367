"""Histogram equalisation, plane by plane."""

from __future__ import annotations

import numpy as np

from ...compiled.byte_vectors import translator
from ...compiled.intrinsics import address, load_i64, load_u8, local_array, view_u8, view_u32
from ...compiled.step import inlined, step
from .color_tables import EQUALIZE, EQUALIZE_RECORD

_VALUES = 256
_BYTES = 4 * _VALUES  # Bytes per histogram.
_MOST_PLANES = 4  # Most planes whose histograms are counted in one pass.
_histograms = local_array(np.uint32, 2 * _MOST_PLANES * _VALUES)
_tables = local_array(np.uint8, _MOST_PLANES * _VALUES)
_histogram = local_array(np.int64, _VALUES)
_translate_one, _translate_three = translator(1), translator(3)

at, record_at = EQUALIZE.at, EQUALIZE_RECORD.at


@inlined
def _fill_table(histogram, table, count):
    """The look-up table: each value maps to its rank among the elements, scaled to 0..255. A plane of a single value is unchanged."""
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


@inlined
def _count(source, planes, count, histograms):
    """Histograms of up to `_MOST_PLANES` planes.

    Neighbouring elements use separate histograms, so that equal ones do not wait for each other.
    """
    one = np.uint32(1)
    for k in range(2 * planes * _VALUES):
        histograms[k] = 0
    others = planes * _VALUES
    pairs = count // 2
    if planes == 3:
        at, begin = address(histograms), address(source)
        a, b, c = view_u32(at, _VALUES), view_u32(at + _BYTES, _VALUES), view_u32(at + 2 * _BYTES, _VALUES)
        d, e, f = view_u32(at + 3 * _BYTES, _VALUES), view_u32(at + 4 * _BYTES, _VALUES), view_u32(at + 5 * _BYTES, _VALUES)
        for i in range(0, 6 * pairs, 6):
            pixel = begin + i
            a[load_u8(pixel)] += one
            b[load_u8(pixel + 1)] += one
            c[load_u8(pixel + 2)] += one
            d[load_u8(pixel + 3)] += one
            e[load_u8(pixel + 4)] += one
            f[load_u8(pixel + 5)] += one
    else:
        for i in range(pairs):
            for plane in range(planes):
                at = 2 * i * planes + plane
                histograms[plane * _VALUES + source[at]] += 1
                histograms[others + plane * _VALUES + source[at + planes]] += 1
    if count & 1:
        for plane in range(planes):
            histograms[plane * _VALUES + source[2 * pairs * planes + plane]] += 1


@inlined
def _one_plane(source, out, planes, plane, count, histogram, table):
    for k in range(_VALUES):
        histogram[k] = 0
    for i in range(count):
        histogram[source[plane + i * planes]] += 1
    _fill_table(histogram, table, count)
    for i in range(count):
        out[plane + i * planes] = table[source[plane + i * planes]]


@step
def equalize_step(context, sample, thread):
    """equalize: UINT8 images and sequences."""
    record = load_i64(context + at.records) + record_at.size * sample
    groups, planes, count = load_i64(record + record_at.groups), load_i64(record + record_at.planes), load_i64(record + record_at.pixels)
    size = planes * count
    histograms, tables, histogram = _histograms(), _tables(), _histogram()
    if count == 0:
        return 0
    for group in range(groups):
        begin = load_i64(load_i64(context + at.inputs) + 8 * sample) + group * size
        to = load_i64(load_i64(context + at.outputs) + 8 * sample) + group * size
        source, out = view_u8(begin, size), view_u8(to, size)
        if planes > _MOST_PLANES or count >= 1 << 31:
            for plane in range(planes):
                _one_plane(source, out, planes, plane, count, histogram, tables)
            continue
        _count(source, planes, count, histograms)
        for plane in range(planes):
            for k in range(_VALUES):
                place = plane * _VALUES + k
                histogram[k] = np.int64(histograms[place]) + np.int64(histograms[planes * _VALUES + place])
            _fill_table(histogram, tables[plane * _VALUES :], count)
        if planes == 1:
            _translate_one(begin, to, address(tables), size)
        elif planes == 3:
            _translate_three(begin, to, address(tables), size)
        else:
            for i in range(count):
                for plane in range(planes):
                    out[i * planes + plane] = tables[plane * _VALUES + source[i * planes + plane]]
    return 0


