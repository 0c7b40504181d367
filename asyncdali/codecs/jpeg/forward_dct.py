"""Pixels to quantised coefficients, as libjpeg writes them: colours, chroma of half the size, the accurate forward DCT, quantisation.

Colours are 16-bit fixed point (jccolor.c). The transform is "islow" (inverse_dct.py), of four blocks at a time. Quotients are products with
reciprocals of 16 bits, which are exact for the transform's range (jcdctmgr.c). Results are bit-identical to libjpeg-turbo.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir

from ...compiled import kinds
from ...compiled.vectors import I8, I16, I32, I64, IntegerVectors, constant, function_of
from .huffman_decoding import ROW_BYTES
from .inverse_dct import CONST_BITS, PASS1_BITS, F, Halves, Pair, transposed

PIXELS = 32
"""Pixels of each of two rows per call of :data:`encode_colors`, and samples per row of four blocks."""
_CENTRE = 128


# ------------------------------------------------------------------------------------------------------------------------------ colours


def _planes(v: IntegerVectors, address: ir.Value) -> list[ir.Value]:
    """Red, green and blue of 32 pixels as int16."""
    two, third = v.load(address, 0, I8, 2 * PIXELS), v.load(address, 2 * PIXELS, I8, PIXELS)
    rest = v.pick(third, third, [k % PIXELS for k in range(2 * PIXELS)])
    wide = ir.VectorType(I16, PIXELS)
    return [v.builder.zext(v.pick(two, rest, [3 * k + plane for k in range(PIXELS)]), wide) for plane in range(3)]


def _weighted(v: IntegerVectors, first: Pair, factors: tuple[int, int], second: Pair, others: tuple[int, int], offset: int) -> ir.Value:
    """(the sum of four products + offset) >> 16, as int16."""
    total = first.sums(*factors) + second.sums(*others)
    added = constant(I32, PIXELS // 2, offset)
    return Halves(v, v.builder.add(total.low, added), v.builder.add(total.high, added)).descaled(16)


def _encode_ir(context, builder, signature, args):
    upper, lower, luma, stride, blue, red = args
    v = IntegerVectors(builder)
    chroma: list[list[ir.Value]] = []
    for address, target in ((upper, luma), (lower, builder.add(luma, stride))):
        r, g, b = _planes(v, address)
        rg, bg, gb = Pair(v, r, g), Pair(v, b, g), Pair(v, g, b)
        # The factors 38470 and 32768 do not fit into int16, so half of the factor is used twice.
        y = _weighted(v, rg, (19595, 19235), bg, (7471, 19235), 1 << 15)
        v.store(builder.trunc(y, ir.VectorType(I8, PIXELS)), target, 0)
        half = (_CENTRE << 16) + (1 << 15) - 1
        chroma.append([
            _weighted(v, rg, (-11058, -21710), Pair(v, b, b), (16384, 16384), half),
            _weighted(v, gb, (-27439, -5329), Pair(v, r, r), (16384, 16384), half),
        ])  # fmt: skip
    # Halves are rounded up and down equally often.
    rounding = ir.Constant(ir.VectorType(I32, PIXELS // 2), [1, 2] * (PIXELS // 4))
    for above, below, target in zip(*chroma, (blue, red)):
        total = builder.add(v.pair_sums(builder.add(above, below), 1, 1), rounding)
        means = builder.lshr(total, constant(I32, PIXELS // 2, 2))
        v.store(builder.trunc(means, ir.VectorType(I8, PIXELS // 2)), target, 0)
    return context.get_dummy_value()


encode_colors = function_of(kinds.void(*[kinds.int64] * 6), _encode_ir)
"""``encode_colors(upper, lower, luma, stride, blue, red)``: 32 RGB pixels of two rows become luma at `luma` (rows `stride` bytes apart) and
16 samples at `blue` and `red`."""


# ---------------------------------------------------------------------------------------------------------------------------- transform


def _butterflies(v: IntegerVectors, x: list[ir.Value], first: bool) -> list[ir.Value]:
    """The forward transform of eight int16 vectors. The first pass keeps PASS1_BITS behind the point, which the second one drops."""
    add, sub = v.builder.add, v.builder.sub
    count = x[0].type.count
    bits = CONST_BITS - PASS1_BITS if first else CONST_BITS + PASS1_BITS
    rounding = constant(I32, count // 2, 1 << (bits - 1))
    sums, differences = [add(x[k], x[7 - k]) for k in range(4)], [sub(x[k], x[7 - k]) for k in range(4)]
    a, b, c, d = add(sums[0], sums[3]), sub(sums[0], sums[3]), add(sums[1], sums[2]), sub(sums[1], sums[2])

    def whole(value: ir.Value) -> ir.Value:
        if first:
            return v.builder.shl(value, constant(I16, count, PASS1_BITS))
        return v.builder.ashr(add(value, constant(I16, count, 1 << (PASS1_BITS - 1))), constant(I16, count, PASS1_BITS))

    def descaled(value: Halves) -> ir.Value:
        return Halves(v, add(value.low, rounding), add(value.high, rounding)).descaled(bits)

    even = Pair(v, b, d)
    z = Pair(v, add(differences[3], differences[1]), add(differences[2], differences[0]))
    z3, z4 = z.sums(F["1.175"] - F["1.961"], F["1.175"]), z.sums(F["1.175"], F["1.175"] - F["0.390"])
    outer, inner = Pair(v, differences[3], differences[0]), Pair(v, differences[2], differences[1])
    return [
        whole(add(a, c)),
        descaled(outer.sums(-F["0.899"], F["1.501"] - F["0.899"]) + z4),
        descaled(even.sums(F["0.541"] + F["0.765"], F["0.541"])),
        descaled(inner.sums(-F["2.562"], F["3.072"] - F["2.562"]) + z3),
        whole(sub(a, c)),
        descaled(inner.sums(F["2.053"] - F["2.562"], -F["2.562"]) + z4),
        descaled(even.sums(F["0.541"], F["0.541"] - F["1.847"])),
        descaled(outer.sums(F["0.298"] - F["0.899"], -F["0.899"]) + z3),
    ]


def _upper_product(v: IntegerVectors, a: ir.Value, b: ir.Value) -> ir.Value:
    """Upper halves of products of unsigned 16-bit numbers (``pmulhuw``)."""
    wide = ir.VectorType(I32, a.type.count)
    product = v.builder.mul(v.builder.zext(a, wide), v.builder.zext(b, wide))
    return v.builder.trunc(v.builder.lshr(product, constant(I32, a.type.count, 16)), a.type)


def _forward_ir(context, builder, signature, args):
    samples, stride, tables, group = args
    v = IntegerVectors(builder)
    rows = []
    for k in range(8):
        row = builder.zext(v.load(samples, builder.mul(stride, I64(k)), I8, PIXELS), ir.VectorType(I16, PIXELS))
        rows.append(builder.sub(row, constant(I16, PIXELS, _CENTRE)))
    columns = _butterflies(v, transposed(v, rows), True)
    for k, row in enumerate(_butterflies(v, transposed(v, columns), False)):
        half, reciprocal, scale = (v.load(tables, (8 * part + k) * ROW_BYTES, I16, PIXELS) for part in range(3))
        sign = builder.ashr(row, constant(I16, PIXELS, 15))
        magnitude = builder.sub(builder.xor(row, sign), sign)
        quotient = _upper_product(v, _upper_product(v, builder.add(magnitude, half), reciprocal), scale)
        v.store(builder.sub(builder.xor(quotient, sign), sign), group, ROW_BYTES * k)
    return context.get_dummy_value()


transform_forward = function_of(kinds.void(*[kinds.int64] * 4), _forward_ir)
"""``transform_forward(samples, stride, tables, group)``: four blocks side by side become quantised coefficients at `group`, as
``transform_whole`` takes them. `tables` are :func:`quantisation`'s."""


def quantisation(divisors: np.ndarray) -> np.ndarray:
    """uint16[..., 4, 8, 32] for divisors int[..., 64], 1 to 255: what is added, reciprocals, their scale, and the divisors.

    Each row is there for four blocks. Coefficients are 8 times too large. A reciprocal of a divisor with b bits has b + 15 bits behind the
    point. It is rounded up, or what is added grows by 1, so that quotients are those of a division (jcdctmgr.c, compute_reciprocal).
    """
    divisor = 8 * np.asarray(divisors, np.int64)
    bits = 16 + np.floor(np.log2(divisor)).astype(np.int64)
    reciprocal, rest = np.divmod(1 << bits, divisor)
    power, low = rest == 0, rest <= divisor // 2
    reciprocal = np.where(power, reciprocal >> 1, np.where(low, reciprocal, reciprocal + 1))
    bits = np.where(power, bits - 1, bits)
    half = np.where(~power & low, divisor // 2 + 1, divisor // 2)
    made = np.stack([half, reciprocal, 1 << (32 - bits), divisor // 8], axis=-2)
    rows = made.reshape(*made.shape[:-1], 8, 1, 8)
    return np.ascontiguousarray(np.broadcast_to(rows, (*rows.shape[:-2], 4, 8)), np.uint16).reshape(*rows.shape[:-2], PIXELS)
