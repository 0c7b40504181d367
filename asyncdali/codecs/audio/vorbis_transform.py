"""The inverse transform of Vorbis blocks, and the sums of overlapping blocks (Vorbis I specification, section 1.3.2).

A block of n samples follows from n / 2 numbers by a discrete cosine transform of type 4. That is a complex Fourier transform of n / 4
points between two multiplications. The Fourier transform is Stockham's: passes of radix 4 between two arrays, and one of radix 2 if the
number of points is not a power of 4.
"""

from __future__ import annotations

from typing import Any

from ...compiled.intrinsics import load_f32, load_i64, view_f32
from ...compiled.step import inlined
from ...compiled.vectors import lanes
from .vorbis_tables import TRANSFORM

at = TRANSFORM.at


def _make_pass(count: int) -> Any:
    """``turn(source, target, points, length, apart, turns)``: a pass of radix 4, `count` lanes at a time.

    The pass combines `length` numbers; `apart` such sets alternate. Arrays are real parts, then imaginary parts.
    """
    own = lanes("float32", count)
    load, store, splat, size = own.load, own.store, own.splat, own.bytes

    @inlined
    def turn(source, target, points, length, apart, turns):
        quarter, imaginary = length // 4, 4 * points
        step = 4 * apart * quarter
        for p in range(quarter):
            c1, s1 = splat(load_f32(turns + 4 * p)), splat(load_f32(turns + 4 * (quarter + p)))
            c2, s2 = splat(load_f32(turns + 4 * (2 * quarter + p))), splat(load_f32(turns + 4 * (3 * quarter + p)))
            c3, s3 = splat(load_f32(turns + 4 * (4 * quarter + p))), splat(load_f32(turns + 4 * (5 * quarter + p)))
            for q in range(0, 4 * apart, size):
                x, y = source + 4 * apart * p + q, target + 16 * apart * p + q
                ar, br, cr, dr = load(x), load(x + step), load(x + 2 * step), load(x + 3 * step)
                x += imaginary
                ai, bi, ci, di = load(x), load(x + step), load(x + 2 * step), load(x + 3 * step)
                er, ei, fr, fi = ar + cr, ai + ci, ar - cr, ai - ci
                gr, gi, hr, hi = br + dr, bi + di, br - dr, bi - di
                store(y, er + gr)
                store(y + imaginary, ei + gi)
                r, i = fr + hi, fi - hr
                store(y + 4 * apart, r * c1 - i * s1)
                store(y + 4 * apart + imaginary, r * s1 + i * c1)
                r, i = er - gr, ei - gi
                store(y + 8 * apart, r * c2 - i * s2)
                store(y + 8 * apart + imaginary, r * s2 + i * c2)
                r, i = fr - hi, fi + hr
                store(y + 12 * apart, r * c3 - i * s3)
                store(y + 12 * apart + imaginary, r * s3 + i * c3)

    return turn


_turn_1, _turn_4, _turn_16 = _make_pass(1), _make_pass(4), _make_pass(16)


@inlined
def _turn_two(source, target, points):
    """The last pass, of radix 2."""
    half = points // 2
    for part in range(2):
        x, y = view_f32(source + 4 * points * part, points), view_f32(target + 4 * points * part, points)
        for q in range(half):
            y[q], y[half + q] = x[q] + x[half + q], x[q] - x[half + q]


@inlined
def _fourier(values, other, points, turns):
    """Transform complex numbers. Returns the address of the result: `values` or `other`."""
    length, apart = points, 1
    while length >= 4:
        if apart == 1:
            _turn_1(values, other, points, length, apart, turns)
        elif apart == 4:
            _turn_4(values, other, points, length, apart, turns)
        else:
            _turn_16(values, other, points, length, apart, turns)
        values, other = other, values
        turns += 6 * length
        length, apart = length // 4, 4 * apart
    if length == 2:
        _turn_two(values, other, points)
        values, other = other, values
    return values


@inlined
def inverse(transform, spectrum, head, tail, work):
    """The two halves of a block, without its window: n / 2 numbers at `spectrum` become n / 2 at `head` and at `tail`.

    `work` has no contents: float32[2 * n]. `head` may be `spectrum`.
    """
    points = load_i64(transform + at.points)
    twist = view_f32(load_i64(transform + at.twist), 2 * points)
    numbers, values = view_f32(spectrum, 2 * points), view_f32(work, 2 * points)
    for k in range(points):
        real, imaginary = numbers[2 * k], numbers[2 * points - 1 - 2 * k]
        c, s = twist[k], twist[points + k]
        values[k], values[points + k] = real * c - imaginary * s, real * s + imaginary * c
    found = view_f32(_fourier(work, work + 8 * points, points, load_i64(transform + at.turns)), 2 * points)
    unfolded = view_f32(work + 16 * points, 2 * points)
    for k in range(points):
        real, imaginary = found[k], found[points + k]
        c, s = twist[k], twist[points + k]
        unfolded[2 * k] = real * c - imaginary * s
        unfolded[2 * points - 1 - 2 * k] = -(real * s + imaginary * c)
    rising, falling = view_f32(head, 2 * points), view_f32(tail, 2 * points)
    for k in range(points):
        rising[k] = unfolded[points + k]
        rising[2 * points - 1 - k] = -unfolded[points + k]
        falling[points + k] = -unfolded[k]
        falling[points - 1 - k] = -unfolded[k]


@inlined
def overlapped(tail, tail_size, head, head_size, window, size, out):
    """Write what lies between the middles of two blocks: the `tail` of the earlier one and the `head` of the later one.

    Their sizes and that of the window's rising half, the smaller one, are in samples. Returns the number of samples.
    """
    before, behind = (tail_size - size) // 2, (head_size - size) // 2
    old, made, rising = view_f32(tail, before), view_f32(out, before), view_f32(window, size)
    for k in range(before):
        made[k] = old[k]
    last, first, both = view_f32(tail + 4 * before, size), view_f32(head + 4 * behind, size), view_f32(out + 4 * before, size)
    for k in range(size):
        both[k] = last[k] * rising[size - 1 - k] + first[k] * rising[k]
    rest, alone = view_f32(head + 4 * (behind + size), behind), view_f32(out + 4 * (before + size), behind)
    for k in range(behind):
        alone[k] = rest[k]
    return before + size + behind
