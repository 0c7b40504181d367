"""Tap tables of separable resampling: the first source index and the weights of every output along an axis.

Filters are look-up tables with linear interpolation. They have the sizes of DALI 2.4 (found by resampling unit matrices: tri 3,
gaussian 65, cubic 129, lanczos3 193 entries), so weights agree to 5e-6. Outside the image the border pixel is repeated, so the weights of
pixels outside are added to the border's weight.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...compiled.intrinsics import larger, load_f64, load_i64, local_array, smaller, store_i64, view_f32, view_i32, view_i64
from ...compiled.step import compiled, pasted
from .resize_tables import FILTER, INTERVAL, RESIZE, RESIZE_RECORD, TAP_HEAD, TAPS

WIDEST = np.float32(8192)
"""Source pixels that a filter covers at most, as in DALI. A region of interest may be any number of times larger than the image."""
NN, LINEAR, CUBIC, LANCZOS3, TRIANGULAR, GAUSSIAN = range(6)
_inner = pasted
_three = local_array(np.int64, 3)


def _filter_tables() -> tuple[np.ndarray, np.ndarray]:
    """All filters as one float32 array, each with a zero before and after, and their descriptions FILTER[6]."""

    def sampled(function: Any, radius: int, entries: int) -> np.ndarray:
        return np.pad(function(np.linspace(-radius, radius, entries)), 1)

    def cubic(x: np.ndarray) -> np.ndarray:  # Catmull-Rom
        x = np.abs(x)
        return np.where(x <= 1, 1.5 * x**3 - 2.5 * x**2 + 1, np.where(x < 2, -0.5 * x**3 + 2.5 * x**2 - 4 * x + 2, 0))

    triangular = sampled(lambda x: 1 - np.abs(x), 1, 3)
    tables = {
        NN: (triangular, 1),
        LINEAR: (triangular, 1),
        CUBIC: (sampled(cubic, 2, 129), 2),
        LANCZOS3: (sampled(lambda x: np.sinc(x) * np.sinc(x / 3), 3, 193), 3),
        TRIANGULAR: (triangular, 1),
        GAUSSIAN: (sampled(lambda x: np.exp(-4 * x * x), 1, 65), 1),
    }
    offsets = np.cumsum([0] + [len(tables[kind][0]) for kind in range(5)])
    rows = [(offsets[kind], len(tables[kind][0]) - 2, tables[kind][1]) for kind in range(6)]
    return np.concatenate([tables[kind][0] for kind in range(6)]).astype(np.float32), np.array(rows, np.int64)


TABLES, DESCRIPTIONS = _filter_tables()


@_inner
def _scale(lo, hi, out_extent):
    """Source pixels per output, signed. It rounds twice like DALI: at the edge of a pixel the last bit decides the nearest one."""
    return np.float32(np.float32(hi - lo) / np.float32(out_extent))


@_inner
def _count_taps(extent, out_extent, lo, hi, kind, antialias, radius):
    """(taps, support scale) of an axis: the number of source pixels per output, and the factor by which the filter is widened."""
    if kind == NN:
        return 1, np.float32(1)
    widen = np.float32(1)
    scale = abs(_scale(lo, hi, out_extent))
    if antialias != 0 and scale > widen:
        widen = smaller(scale, np.float32(0.5) * WIDEST / np.float32(radius))
    return smaller(np.int64(np.ceil(np.float32(2) * np.float32(radius) * widen)), extent), widen


@_inner
def _fill_nearest(extent, out_extent, lo, hi, running, whole, first, weights):
    """Nearest source indices. DALI computes columns one by one; rows and planes (`running`) are a running float32 sum.

    Positions count from the first pixel of the axis (`whole`) or of the source interval. This matters for positions on a boundary:
    DALI resamples one axis after the other, and the first pass keeps only the parts of the other axes that their intervals touch.
    """
    scale = _scale(lo, hi, out_extent)
    begin = np.int64(0) if whole else larger(np.int64(np.floor(smaller(lo, hi))), 0)
    origin = np.float32(lo - begin)
    center = origin + np.float32(0.5) * scale
    for i in range(out_extent):
        if not running:
            center = origin + (np.float32(i) + np.float32(0.5)) * scale
        first[i] = smaller(larger(begin + np.int64(np.floor(center)), 0), extent - 1)
        weights[i] = np.float32(1)
        center += scale


@_inner
def _touched(extent, lo, hi):
    """Number of pixels of an axis that DALI keeps for a source interval: the pixels that it touches, and one more."""
    end = smaller(larger(np.ceil(larger(lo, hi)) + 1, 0.0), np.float64(extent))
    return np.int64(end - smaller(larger(np.floor(smaller(lo, hi)), 0.0), np.float64(extent)))


@_inner
def _first_axis(touched, out, planar):
    """The axis that DALI resamples first. DALI chooses the order of passes with the fewest pixels; the pixels of a pass along z, y and x
    are weighted by 21, 20 and 22. `touched`: source pixels of each axis; `out`: output extents; `planar`: there is no pass along z.

    (Found by comparing the nearest pixels of 20,000 regions with DALI: in all cases in which the last bit shows the axis, it is this one.)
    """
    area = out[1] * out[2]
    if planar:
        return 1 if 20 * out[1] * touched[2] + 22 * area < 22 * touched[1] * out[2] + 20 * area else 2
    found, least, extents, order = np.int64(2), np.int64(-1), _three(), _three()
    for a in range(2, -1, -1):
        for b in range(2, -1, -1):
            if a == b:
                continue
            cost = np.int64(0)
            order[0], order[1], order[2] = a, b, 3 - a - b
            for axis in range(3):
                extents[axis] = touched[axis]
            for k in range(3):
                axis = order[k]
                extents[axis] = out[axis]
                cost += (21 if axis == 0 else 20 if axis == 1 else 22) * extents[0] * extents[1] * extents[2]
            if least < 0 or cost < least:
                found, least = np.int64(a), cost
    return found


@_inner
def _gaussian_reach(reach):
    """The gaussian's reach in DALI's arithmetic: an ulp or two less than `reach` for some scales.

    Its support is 4 sqrt(2) sigma with sigma = reach / (2 sqrt(2)), and its table has 64 cells: each step rounds to float32. The filter is
    not zero at its edge, so the last bit decides whether a tap at the edge counts. (Found by measuring DALI's weights
    of impulses at scales 1 to 13 and 1/3, 1/5, and trying the possible orders of operations.)
    """
    sigma = np.float32(np.float64(np.float32(0.5) * reach) / 1.4142135623730951)
    support = np.float32(5.656854249492381) * sigma
    return np.float32(32) / (np.float32(64) / support)


@_inner
def _fill_taps(extent, out_extent, lo, hi, taps, widen, table, entries, radius, gaussian, first, weights):
    """Taps of one axis: first source index int32[out] and normalised weights float32[out, taps]."""
    scale = _scale(lo, hi, out_extent)
    origin = np.float32(lo)
    reach = np.float32(radius) * widen
    before = _gaussian_reach(reach) if gaussian else reach
    begin = origin + (np.float32(0.5) * scale - np.float32(0.5) - before)
    window = np.int64(np.ceil(np.float32(2) * reach))
    steps = np.float32(entries - 1) / (np.float32(2) * reach)
    last = np.float32(entries + 1)
    for i in range(out_extent):
        center = origin + (np.float32(i) + np.float32(0.5)) * scale - np.float32(0.5)
        start = np.int64(np.ceil(np.float32(i) * scale + begin))
        base = smaller(larger(start, 0), extent - taps)
        first[i] = base
        at = i * taps
        for k in range(taps):
            weights[at + k] = np.float32(0)
        total = np.float32(0)
        for k in range(window):
            source = start + k
            position = (np.float32(source) - center + reach) * steps + np.float32(1)
            position = smaller(larger(position, np.float32(0)), last)
            cell = smaller(np.int64(position), entries)
            part = position - np.float32(cell)
            weight = table[cell] + (table[cell + 1] - table[cell]) * part
            total += weight
            weights[at + smaller(larger(source, 0), extent - 1) - base] += weight
        total = np.float32(1) / total
        for k in range(taps):
            weights[at + k] *= total


HEAD_BYTES = 128
"""Bytes of a TAP_HEAD in scratch. The data behind it is aligned to 64 bytes."""
_at, _record, _interval, _filter, _taps, _head = RESIZE.at, RESIZE_RECORD.word, INTERVAL.at, FILTER.word, TAPS.at, TAP_HEAD.at


@_inner
def _axis_from_zero(context, sample):
    """The axis whose nearest pixels are counted from the axis' first pixel; -1 unless all axes use nearest pixels."""
    record = view_i64(load_i64(context + _at.records) + _record.size * sample, _record.words)
    touched, out = _three(), _three()
    for axis in range(3):
        interval = load_i64(context + _at.intervals) + _interval.size * (3 * sample + axis)
        lo, hi = load_f64(interval + _interval.lo), load_f64(interval + _interval.hi)
        out[axis] = record[_record.out_depth + axis]
        if (record[_record.min_filter] if out[axis] < abs(hi - lo) else record[_record.mag_filter]) != NN:
            return -1
        touched[axis] = _touched(record[_record.in_depth + axis], lo, hi)
    planar = record[_record.in_depth] == 1 and out[0] == 1  # A volume of one plane counts as a picture.
    return _first_axis(touched, out, planar)


@compiled(3)
def tap_tables(context, sample, scratch):
    """Fill the tap tables of a sample's three axes at `scratch`, behind a TAP_HEAD; see ``resize_tables``."""
    record = view_i64(load_i64(context + _at.records) + _record.size * sample, _record.words)
    free = scratch + HEAD_BYTES
    whole = _axis_from_zero(context, sample)
    for axis in range(3):
        extent = record[_record.in_depth + axis]
        out_extent = record[_record.out_depth + axis]
        interval = load_i64(context + _at.intervals) + _interval.size * (3 * sample + axis)
        lo = load_f64(interval + _interval.lo)
        hi = load_f64(interval + _interval.hi)
        kind = record[_record.min_filter] if out_extent < abs(hi - lo) else record[_record.mag_filter]
        described = view_i64(load_i64(context + _at.descriptions) + _filter.size * kind, _filter.words)
        entries, radius = described[_filter.entries], described[_filter.radius]
        taps, widen = _count_taps(extent, out_extent, lo, hi, kind, record[_record.antialias], radius)
        weights_at = free + ((4 * out_extent + 63) & -64)
        first = view_i32(free, out_extent)
        weights = view_f32(weights_at, out_extent * taps)
        if kind == NN:
            _fill_nearest(extent, out_extent, lo, hi, axis != 2, axis == whole, first, weights)
        else:
            table = view_f32(load_i64(context + _at.filters) + 4 * described[_filter.offset], entries + 2)
            _fill_taps(extent, out_extent, lo, hi, taps, widen, table, entries, radius, kind == GAUSSIAN, first, weights)
        head = scratch + _taps.size * axis
        store_i64(head + _taps.first, free)
        store_i64(head + _taps.weights, weights_at)
        store_i64(head + _taps.count, taps)
        free = weights_at + ((4 * out_extent * taps + 63) & -64)
    store_i64(scratch + _head.free, free)
    return 0
