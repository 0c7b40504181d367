"""Samples to pixels: chroma in full size by libjpeg's "fancy" (triangle) filter, and YCbCr to RGB, 32 pixels at a time.

Both are libjpeg-turbo's to the bit (jdsample.c, jdcolor.c): chroma in 8 bits after the filter, conversion with factors of 16 bits.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .vectors import I8, I16, I32, I64, Vectors, splat

PIXELS = 32
"""Pixels of one call."""
_HALF = 1 << 15
# 1.402 = 1 + 0.402, 1.772 = 2 - 0.228, 0.71414 = 1 - 0.28586: factors of 16 bits.
_F_402, _F_228, _F_344, _F_286 = 26345, 14942, 22554, 18734


def _samples(v: Vectors, address: ir.Value, offset: ir.Value | int, count: int) -> ir.Value:
    """`count` bytes as int16."""
    return v.builder.zext(v.load(address, offset, I8, count), ir.VectorType(I16, count))


def _thrice(v: Vectors, value: ir.Value) -> ir.Value:
    return v.builder.add(value, v.builder.add(value, value))


def _nearer(v: Vectors, at: ir.Value, near: ir.Value, offset: ir.Value | int, count: int) -> ir.Value:
    """Three times the row at `at` and once the one that is `near` bytes away."""
    return v.builder.add(_thrice(v, _samples(v, at, offset, count)), _samples(v, v.builder.add(at, near), offset, count))


def _widened(v: Vectors, columns: Callable[[ir.Value | int], ir.Value], odd: ir.Value, rounding: int, bits: int) -> ir.Value:
    """Twice as many columns: each is three parts the nearer of `columns(offset)` and one part the other.

    `odd`: 1 if the first pixel is the right one of its two. Left ones round by `rounding`, right ones by a neighbouring number.
    """
    builder, half = v.builder, PIXELS // 2
    other = builder.sub(I64(1), odd)
    right = builder.trunc(odd, I16)
    # Of 4 parts left ones round by 1 and right ones by 2, of 16 by 8 and 7.
    step = right if rounding == 1 else builder.neg(right)
    first = builder.add(I16(rounding), step)
    second = builder.sub(I16(rounding + (1 if rounding == 1 else -1)), step)
    shift = splat(I16, half, bits)
    halves = []
    for middle, side, add in ((I64(0), builder.sub(odd, other), first), (odd, other, second)):
        total = builder.add(builder.add(_thrice(v, columns(middle)), columns(side)), v.spread(add, I16, half))
        halves.append(builder.lshr(total, shift))
    return v.pick(*halves, [k // 2 + half * (k % 2) for k in range(PIXELS)])


def _plain(v: Vectors, at: ir.Value, near: ir.Value, odd: ir.Value, lower: ir.Value) -> ir.Value:
    return _samples(v, at, 0, PIXELS)


def _double_width(v: Vectors, at: ir.Value, near: ir.Value, odd: ir.Value, lower: ir.Value) -> ir.Value:
    return _widened(v, lambda offset: _samples(v, at, offset, PIXELS // 2), odd, 1, 2)


def _double_both(v: Vectors, at: ir.Value, near: ir.Value, odd: ir.Value, lower: ir.Value) -> ir.Value:
    return _widened(v, lambda offset: _nearer(v, at, near, offset, PIXELS // 2), odd, 8, 4)


def _double_height(v: Vectors, at: ir.Value, near: ir.Value, odd: ir.Value, lower: ir.Value) -> ir.Value:
    rounding = v.spread(v.builder.add(I16(1), v.builder.trunc(lower, I16)), I16, PIXELS)
    total = v.builder.add(_nearer(v, at, near, 0, PIXELS), rounding)
    return v.builder.lshr(total, splat(I16, PIXELS, 2))


def _rgb(v: Vectors, y: ir.Value, cb: ir.Value, cr: ir.Value) -> list[ir.Value]:
    """Bytes of red, green and blue."""
    builder = v.builder
    one, centre = splat(I16, PIXELS, 1), splat(I16, PIXELS, 128)
    cb, cr = builder.sub(cb, centre), builder.sub(cr, centre)

    def part(value: ir.Value, factor: int) -> ir.Value:  # (factor * value + half) >> 16
        product = v.high_product(builder.add(value, value), factor)
        return builder.ashr(builder.add(product, one), one)

    red = builder.add(builder.add(y, cr), part(cr, _F_402))
    blue = builder.add(builder.add(y, builder.add(cb, cb)), part(cb, -_F_228))
    sums = []
    for pairs in (v.low(cb, cr), v.high(cb, cr)):
        total = v.pair_sums(pairs, -_F_344, _F_286)
        sums.append(builder.ashr(builder.add(total, splat(I32, PIXELS // 2, _HALF)), splat(I32, PIXELS // 2, 16)))
    green = builder.add(builder.sub(y, cr), v.packed(*sums))
    return [builder.trunc(v.clamped(value, 0, 255), ir.VectorType(I8, PIXELS)) for value in (red, green, blue)]


def _store_pixels(v: Vectors, planes: list[ir.Value], out: ir.Value) -> None:
    """Three vectors of bytes, in turn."""
    for part in range(3):
        places = range(PIXELS * part, PIXELS * (part + 1))
        two = v.pick(planes[0], planes[1], [at // 3 + PIXELS * (at % 3 == 1) for at in places])
        three = v.pick(two, planes[2], [PIXELS + at // 3 if at % 3 == 2 else at - PIXELS * part for at in places])
        v.store(three, out, PIXELS * part)


def _make(chroma: Callable[..., ir.Value]):
    @intrinsic
    def convert(typingctx, luma, blue, red, near, odd, lower, blue_first, out):
        """32 pixels of 3 bytes to `out`: luma at `luma`; chroma at `blue` and `red`, in rows `near` bytes from the next nearest ones.

        `odd`: 1 if the first pixel is the right one of two that share chroma; `lower`: 1 if the row is the lower one.
        """

        def codegen(context, builder, signature, args):
            y_at, cb_at, cr_at, near_by, odd_one, lower_one, swapped, target = args
            v = Vectors(builder)
            y = _samples(v, y_at, 0, PIXELS)
            cb, cr = (chroma(v, at, near_by, odd_one, lower_one) for at in (cb_at, cr_at))
            first, second, third = _rgb(v, y, cb, cr)
            swap = builder.icmp_signed("!=", swapped, I64(0))
            planes = [builder.select(swap, third, first), second, builder.select(swap, first, third)]
            _store_pixels(v, planes, target)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 8), codegen

    return convert


convert_444 = _make(_plain)
convert_422 = _make(_double_width)
convert_420 = _make(_double_both)
convert_440 = _make(_double_height)


@intrinsic
def spread_grey(typingctx, luma, out):
    """32 grey pixels of 3 equal bytes."""

    def codegen(context, builder, signature, args):
        v = Vectors(builder)
        y = v.load(args[0], 0, I8, PIXELS)
        for part in range(3):
            v.store(v.pick(y, y, [at // 3 for at in range(PIXELS * part, PIXELS * (part + 1))]), args[1], PIXELS * part)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), codegen
