"""Samples to pixels, 32 at a time: chroma is enlarged by libjpeg's "fancy" (triangle) filter, and YCbCr becomes RGB.

Results are bit-identical to libjpeg-turbo (jdsample.c, jdcolor.c): filtered chroma has 8 bits, and conversion factors have 16 bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from ...compiled import kinds
from ...compiled.kinds import intrinsic
from ...compiled.vectors import I8, I16, I32, I64, IntegerVectors, constant

PIXELS = 32
"""Pixels per call."""
_HALF = 1 << 15
# 1.402 = 1 + 0.402, 1.772 = 2 - 0.228, 0.71414 = 1 - 0.28586: factors of 16 bits.
_F_402, _F_228, _F_344, _F_286 = 26345, 14942, 22554, 18734


def _samples(v: IntegerVectors, address: ir.Value, offset: int) -> ir.Value:
    """Load 32 bytes as int16."""
    return v.builder.zext(v.load(address, offset, I8, PIXELS), ir.VectorType(I16, PIXELS))


def _thrice(v: IntegerVectors, value: ir.Value) -> ir.Value:
    return v.builder.add(value, v.builder.add(value, value))


def _nearer(v: IntegerVectors, at: ir.Value, near: ir.Value, offset: int) -> ir.Value:
    """Three times the row at `at` plus the row `near` bytes away."""
    return v.builder.add(_thrice(v, _samples(v, at, offset)), _samples(v, v.builder.add(at, near), offset))


def _widened(v: IntegerVectors, columns: ir.Value, left: int, right: int, bits: int) -> ir.Value:
    """Twice as many columns, starting left of the first. Each output is three parts the nearer column and one part the other column. The
    rounding alternates between `left` and `right`."""
    nearer = v.pick(columns, columns, [1 + k // 2 for k in range(PIXELS)])
    other = v.pick(columns, columns, [k // 2 + 2 * (k % 2) for k in range(PIXELS)])
    rounding = ir.Constant(ir.VectorType(I16, PIXELS), [left, right] * (PIXELS // 2))
    total = v.builder.add(v.builder.add(_thrice(v, nearer), other), rounding)
    return v.builder.lshr(total, constant(I16, PIXELS, bits))


def _plain(v: IntegerVectors, at: ir.Value, near: ir.Value, lower: ir.Value) -> ir.Value:
    return _samples(v, at, 0)


def _double_width(v: IntegerVectors, at: ir.Value, near: ir.Value, lower: ir.Value) -> ir.Value:
    return _widened(v, _samples(v, at, -1), 1, 2, 2)


def _double_both(v: IntegerVectors, at: ir.Value, near: ir.Value, lower: ir.Value) -> ir.Value:
    return _widened(v, _nearer(v, at, near, -1), 8, 7, 4)


def _double_height(v: IntegerVectors, at: ir.Value, near: ir.Value, lower: ir.Value) -> ir.Value:
    rounding = v.spread(v.builder.add(I16(1), v.builder.trunc(lower, I16)), PIXELS)
    total = v.builder.add(_nearer(v, at, near, 0), rounding)
    return v.builder.lshr(total, constant(I16, PIXELS, 2))


def _rgb(v: IntegerVectors, y: ir.Value, cb: ir.Value, cr: ir.Value) -> list[ir.Value]:
    """Red, green and blue, before the limitation to 8 bits."""
    builder = v.builder
    one, centre = constant(I16, PIXELS, 1), constant(I16, PIXELS, 128)
    cb, cr = builder.sub(cb, centre), builder.sub(cr, centre)

    def part(value: ir.Value, factor: int) -> ir.Value:  # (factor * value + half) >> 16
        product = v.high_product(builder.add(value, value), factor)
        return builder.ashr(builder.add(product, one), one)

    red = builder.add(builder.add(y, cr), part(cr, _F_402))
    blue = builder.add(builder.add(y, builder.add(cb, cb)), part(cb, -_F_228))
    sums = []
    for pairs in (v.low(cb, cr), v.high(cb, cr)):
        total = v.pair_sums(pairs, -_F_344, _F_286)
        sums.append(builder.ashr(builder.add(total, constant(I32, PIXELS // 2, _HALF)), constant(I32, PIXELS // 2, 16)))
    green = builder.add(builder.sub(y, cr), v.packed(*sums))
    return [red, green, blue]


def _make(chroma: Callable[..., ir.Value]) -> Any:
    @intrinsic
    def convert(typingctx, luma, blue, red, near, lower, blue_first, out):
        """Write 32 pixels of 3 bytes to `out`. Luma is at `luma`, chroma at `blue` and `red`; the next nearest row is `near` bytes away.

        Where two pixels share chroma, the first pixel is the left one. `lower` is 1 if the row is the lower one of two rows that share
        chroma.
        """

        def codegen(context, builder, signature, args):
            y_at, cb_at, cr_at, near_by, lower_one, swapped, target = args
            v = IntegerVectors(builder)
            y = _samples(v, y_at, 0)
            cb, cr = (chroma(v, at, near_by, lower_one) for at in (cb_at, cr_at))
            first, second, third = _rgb(v, y, cb, cr)
            swap = builder.icmp_signed("!=", swapped, I64(0))
            planes = [builder.select(swap, third, first), second, builder.select(swap, first, third)]
            v.store_pixels(planes, target)
            return context.get_dummy_value()

        return kinds.void(*[kinds.int64] * 7), codegen

    return convert


convert_444 = _make(_plain)
convert_422 = _make(_double_width)
convert_420 = _make(_double_both)
convert_440 = _make(_double_height)


@intrinsic
def spread_grey(typingctx, luma, out):
    """Write 32 grey pixels of 3 equal bytes."""

    def codegen(context, builder, signature, args):
        v = IntegerVectors(builder)
        y = v.load(args[0], 0, I8, PIXELS)
        for part in range(3):
            v.store(v.pick(y, y, [at // 3 for at in range(PIXELS * part, PIXELS * (part + 1))]), args[1], PIXELS * part)
        return context.get_dummy_value()

    return kinds.void(kinds.int64, kinds.int64), codegen
