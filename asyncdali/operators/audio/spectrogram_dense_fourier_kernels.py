"""Direct Fourier transforms of real numbers, in float64: each frequency is a sum over all numbers. Each lane of a vector computes one row.

Lengths that are not even, or have prime factors above 5, have no :class:`~.fourier.RealTransform`. Up to 2,048 numbers, the direct sum is
faster than the convolution of :class:`~.fourier.Transform`, because the convolution's loops are not vectorised. 401 numbers take 3 us
instead of 30 us.
"""

from __future__ import annotations

import numpy as np

from ...compiled.intrinsics import load_f32, load_f64, load_i64, smaller, view_f32, view_f64
from ...compiled.job_tables import THREAD
from ...compiled.step import inlined, step
from ...compiled.target import processor_has
from ...compiled.vectors import lanes, widest
from .spectrogram_fourier_tables import DENSE_TRANSFORM, POWER_SPECTRUM, ROW_SIZES

LANES = max(widest() // 8, 2)
"""Rows that are transformed at a time."""
_FUSED = processor_has("fma")

record, plan_at, rows_at, spectrum = THREAD.at, DENSE_TRANSFORM.at, ROW_SIZES.at, POWER_SPECTRUM.at
_v = lanes("float64", LANES)
_load, _store, _splat, _fma, _size = _v.load, _v.store, _v.splat, _v.fma, _v.bytes


def scratch_bytes(n: int) -> int:
    """Scratch of the step for transforms of length `n`: sums and differences, and the powers."""
    size: int = _size * (2 * ((n - 1) // 2 + 1) + n // 2 + 4)
    return size


@inlined
def _sum(a, b, c):
    return _fma(a, b, c) if _FUSED else a * b + c


@inlined
def _load_rows(data_at, n, source, first, valid, length, inner):
    """Store number 0 of each row, number n / 2 (0 for an odd n), then the sums and differences of numbers j and n - j."""
    half = (n - 1) // 2
    data = view_f64(data_at, 2 * (half + 1) * LANES)
    for lane in range(LANES):
        row = first + (lane if lane < valid else 0)
        begin = source + 4 * ((row // inner) * length * inner + row % inner)
        data[lane] = load_f32(begin) if length > 0 else 0.0
        middle = n // 2
        data[LANES + lane] = load_f32(begin + 4 * inner * middle) if n % 2 == 0 and middle < length else 0.0
        for j in range(1, half + 1):
            a = np.float64(load_f32(begin + 4 * inner * j)) if j < length else 0.0
            b = np.float64(load_f32(begin + 4 * inner * (n - j))) if n - j < length else 0.0
            data[2 * j * LANES + lane] = a + b
            data[(2 * j + 1) * LANES + lane] = a - b


@inlined
def _next(place, k, n):
    """(place + k) modulo n, for numbers below n."""
    place += k - n
    return place + n if place < 0 else place


@inlined
def _four_powers(data, turns, n, k, powers):
    """The squared magnitudes of the frequencies k to k + 3; k is a multiple of 4."""
    zero, middle = _load(data), _load(data + _size)
    r0, r1 = zero + middle, zero - middle
    r2, r3 = r0, r1
    i0 = i1 = i2 = i3 = _splat(0.0)
    round_trip = 16 * n  # offsets are in bytes: 16 per complex number
    k0, k1, k2, k3 = 16 * (k % n), 16 * ((k + 1) % n), 16 * ((k + 2) % n), 16 * ((k + 3) % n)
    p0 = p1 = p2 = p3 = 0
    for j in range(1, (n - 1) // 2 + 1):
        even, odd = _load(data + 2 * j * _size), _load(data + (2 * j + 1) * _size)
        p0, p1, p2, p3 = _next(p0, k0, round_trip), _next(p1, k1, round_trip), _next(p2, k2, round_trip), _next(p3, k3, round_trip)
        r0, i0 = _sum(even, _splat(load_f64(turns + p0)), r0), _sum(odd, _splat(load_f64(turns + p0 + 8)), i0)
        r1, i1 = _sum(even, _splat(load_f64(turns + p1)), r1), _sum(odd, _splat(load_f64(turns + p1 + 8)), i1)
        r2, i2 = _sum(even, _splat(load_f64(turns + p2)), r2), _sum(odd, _splat(load_f64(turns + p2 + 8)), i2)
        r3, i3 = _sum(even, _splat(load_f64(turns + p3)), r3), _sum(odd, _splat(load_f64(turns + p3 + 8)), i3)
    _store(powers, r0 * r0 + i0 * i0)
    _store(powers + _size, r1 * r1 + i1 * i1)
    _store(powers + 2 * _size, r2 * r2 + i2 * i2)
    _store(powers + 3 * _size, r3 * r3 + i3 * i3)


@step
def dense_power_spectrum_step(context, sample, thread):
    """Transform rows of any length along an axis, `LANES` at a time."""
    sizes = load_i64(context + spectrum.sizes) + rows_at.size * sample
    outer, length, inner = load_i64(sizes + rows_at.outer), load_i64(sizes + rows_at.length), load_i64(sizes + rows_at.inner)
    plan, root = load_i64(context + spectrum.plan), load_i64(context + spectrum.power) == 1
    n, turns = load_i64(plan + plan_at.length), load_i64(plan + plan_at.turns)
    bins = n // 2 + 1
    source = load_i64(load_i64(context + spectrum.inputs) + 8 * sample)
    out = view_f32(load_i64(load_i64(context + spectrum.outputs) + 8 * sample), outer * bins * inner)
    data = load_i64(thread + record.scratch) + load_i64(context + spectrum.scratch)
    powers_at = data + 2 * ((n - 1) // 2 + 1) * _size
    powers = view_f64(powers_at, (bins + 3) * LANES)
    for first in range(0, outer * inner, LANES):
        valid = smaller(outer * inner - first, LANES)
        _load_rows(data, n, source, first, valid, length, inner)
        for k in range(0, bins, 4):
            _four_powers(data, turns, n, k, powers_at + k * _size)
        for lane in range(valid):
            row = first + lane
            begin = (row // inner) * bins * inner + row % inner
            for k in range(bins):
                value = powers[k * LANES + lane]
                out[begin + k * inner] = np.float32(np.sqrt(value) if root else value)
    return 0
