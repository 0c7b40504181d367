"""Tap tables of separable resampling: the first source index and the weights of every output along an axis.

Filters are lookup tables with linear interpolation of the sizes that DALI 2.4 uses (found by resampling unit matrices: tri 3,
gaussian 65, cubic 129, lanczos3 193 entries), so weights agree to 5e-6. A pixel outside the image is the border pixel, so its weight is
added to the border's.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from ...compiled.intrinsics import larger, load_i64, smaller, store_i64, view_f32, view_f64, view_i32
from ...compiled.memory import address_of
from ...compiled.step import compiled

NN, LINEAR, CUBIC, LANCZOS3, TRIANGULAR, GAUSSIAN = range(6)
_inner = njit(inline="always")


def _filter_tables() -> tuple[np.ndarray, np.ndarray]:
    """All filters as one float32 array, each with a zero before and after, and int32[6, 3] (offset, entries, radius)."""

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
    return np.concatenate([tables[kind][0] for kind in range(6)]).astype(np.float32), np.array(rows, np.int32)


TABLES, DESCRIPTIONS = _filter_tables()
TABLES_AT, DESCRIPTIONS_AT = address_of(TABLES), address_of(DESCRIPTIONS)


@_inner
def _scale(lo, hi, out_extent):
    """Source pixels per output, signed. The two roundings are DALI's: at the edge of a pixel the last bit chooses the nearest one."""
    return np.float32(np.float32(hi - lo) / np.float32(out_extent))


@_inner
def _count_taps(extent, out_extent, lo, hi, kind, antialias, radius):
    """(taps, support scale) of an axis: how many source pixels one output takes, and by how much the filter is widened."""
    if kind == NN:
        return 1, np.float32(1)
    widen = np.float32(1)
    scale = abs(_scale(lo, hi, out_extent))
    if antialias != 0 and scale > widen:
        widen = scale
    return smaller(np.int64(np.ceil(np.float32(2) * np.float32(radius) * widen)), extent), widen


@_inner
def _fill_nearest(extent, out_extent, lo, hi, running, first, weights):
    """Nearest source indices; DALI computes columns one by one and (`running`) rows and planes as a running float32 sum.

    Positions count from the first whole pixel of the source interval, which matters where they fall on a boundary.
    """
    scale = _scale(lo, hi, out_extent)
    begin = larger(np.int64(np.floor(smaller(lo, hi))), 0)
    origin = np.float32(lo - begin)
    center = origin + np.float32(0.5) * scale
    for i in range(out_extent):
        if not running:
            center = origin + (np.float32(i) + np.float32(0.5)) * scale
        first[i] = smaller(larger(begin + np.int64(np.floor(center)), 0), extent - 1)
        weights[i] = np.float32(1)
        center += scale


@_inner
def _gaussian_reach(reach):
    """The gaussian's reach as DALI's arithmetic has it, an ulp or two less than `reach` for some scales.

    Its support is 4 sqrt(2) sigma with sigma = reach / (2 sqrt(2)), and its table has 64 cells: each step rounds to float32. It matters
    because the filter is not zero at its edge: a tap that falls there is in or out by the last bit. (Found by asking DALI for the weights
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


# Head of the tables in scratch (int64 each): per axis (depth, height, width) address of first indices, address of weights, taps; then the
# address of the free scratch behind the tables.
HEAD_BYTES = 128


@compiled(3)
def tap_tables(context, sample, scratch):
    """Fill the tap tables of a sample's three axes at `scratch`, behind a head that says where they are; see ``resize_kernels``."""
    record = load_i64(context + 16) + 88 * sample
    free = scratch + HEAD_BYTES
    for axis in range(3):
        extent = load_i64(record + 8 + 8 * axis)
        out_extent = load_i64(record + 40 + 8 * axis)
        interval = view_f64(load_i64(context + 24) + 48 * sample + 16 * axis, 2)
        lo = interval[0]
        hi = interval[1]
        kind = load_i64(record + 64) if out_extent < abs(hi - lo) else load_i64(record + 72)
        description = view_i32(load_i64(context + 40) + 12 * kind, 3)
        taps, widen = _count_taps(extent, out_extent, lo, hi, kind, load_i64(record + 80), description[2])
        weights_at = free + ((4 * out_extent + 63) & -64)
        first = view_i32(free, out_extent)
        weights = view_f32(weights_at, out_extent * taps)
        if kind == NN:
            _fill_nearest(extent, out_extent, lo, hi, axis != 2, first, weights)
        else:
            table = view_f32(load_i64(context + 32) + 4 * description[0], description[1] + 2)
            _fill_taps(extent, out_extent, lo, hi, taps, widen, table, description[1], description[2], kind == GAUSSIAN, first, weights)
        store_i64(scratch + 24 * axis, free)
        store_i64(scratch + 24 * axis + 8, weights_at)
        store_i64(scratch + 24 * axis + 16, taps)
        free = weights_at + ((4 * out_extent * taps + 63) & -64)
    store_i64(scratch + 72, free)
    return 0
