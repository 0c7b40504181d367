"""Coefficients to samples: libjpeg's accurate integer inverse DCT, of four blocks at a time.

The method is Loeffler, Ligtenberg and Moschytz's (ICASSP 1989) in the fixed-point form of libjpeg's "islow". Width and saturation of
intermediate values are those of libjpeg-turbo's x86 code. This code differs from libjpeg-turbo's C code for values larger than those of
pictures. huffman_decoding.py describes the layout of a group's coefficients: the eight columns of each block fill 128 bits of a vector.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from ...compiled import kinds
from ...compiled.kinds import intrinsic
from ...compiled.vectors import I8, I16, I32, I64, IntegerVectors, constant
from .huffman_decoding import ROW_BYTES

CONST_BITS, PASS1_BITS = 13, 2
F = {name: round(value * (1 << CONST_BITS)) for name, value in {
    "0.298": 0.298631336, "0.390": 0.390180644, "0.541": 0.541196100, "0.765": 0.765366865, "0.899": 0.899976223, "1.175": 1.175875602,
    "1.501": 1.501321110, "1.847": 1.847759065, "1.961": 1.961570560, "2.053": 2.053119869, "2.562": 2.562915447, "3.072": 3.072711026,
}.items()}  # fmt: skip

SPARSE = 10
"""The first SPARSE coefficients in zigzag order lie within the first four rows and columns."""
LARGEST_FIRST_ROW = 8192
"""Values from here on: libjpeg-turbo's result depends on which coefficients are 0, because its short cut does not saturate."""


class Halves:
    """int32 vectors of the lower and upper halves of each 128 bits of int16."""

    def __init__(self, v: IntegerVectors, low: ir.Value, high: ir.Value):
        self.v, self.low, self.high = v, low, high

    def __add__(self, other: Halves) -> Halves:
        add = self.v.builder.add
        return Halves(self.v, add(self.low, other.low), add(self.high, other.high))

    def __sub__(self, other: Halves) -> Halves:
        sub = self.v.builder.sub
        return Halves(self.v, sub(self.low, other.low), sub(self.high, other.high))

    def descaled(self, bits: int) -> ir.Value:
        """Shift right and saturate to int16."""
        shift = constant(I32, self.low.type.count, bits)
        return self.v.packed(self.v.builder.ashr(self.low, shift), self.v.builder.ashr(self.high, shift))


class Pair:
    """Two int16 vectors, for sums of products."""

    def __init__(self, v: IntegerVectors, a: ir.Value, b: ir.Value):
        self.v, self.low, self.high = v, v.low(a, b), v.high(a, b)

    def sums(self, first: int, second: int) -> Halves:
        return Halves(self.v, self.v.pair_sums(self.low, first, second), self.v.pair_sums(self.high, first, second))


def _scaled(v: IntegerVectors, value: ir.Value, rounding: int) -> Halves:
    """int16 << CONST_BITS, plus the rounding constant of a later shift."""
    zero = constant(I16, value.type.count, 0)
    shift, add = constant(I32, value.type.count // 2, 16 - CONST_BITS), constant(I32, value.type.count // 2, rounding)
    halves = (v.builder.ashr(v.cast(part, I32), shift) for part in (v.low(zero, value), v.high(zero, value)))
    return Halves(v, *(v.builder.add(half, add) for half in halves))


def _butterflies(v: IntegerVectors, x: list[ir.Value], bits: int) -> list[ir.Value]:
    """The transform of eight int16 vectors, or of four if the others are 0."""
    rounding = 1 << (bits - 1)
    whole = len(x) == 8
    zero = constant(I16, x[0].type.count, 0)
    even = Pair(v, x[2], x[6] if whole else zero)
    tmp3 = even.sums(F["0.541"] + F["0.765"], F["0.541"])
    tmp2 = even.sums(F["0.541"], F["0.541"] - F["1.847"])
    if whole:
        tmp0, tmp1 = _scaled(v, v.builder.add(x[0], x[4]), rounding), _scaled(v, v.builder.sub(x[0], x[4]), rounding)
    else:
        tmp0 = tmp1 = _scaled(v, x[0], rounding)
    tmp10, tmp13, tmp11, tmp12 = tmp0 + tmp3, tmp0 - tmp3, tmp1 + tmp2, tmp1 - tmp2
    # z3 = z3 * (1.175 - 1.961) + z4 * 1.175, z4 = z3 * 1.175 + z4 * (1.175 - 0.390)
    a, b = F["1.175"] - F["1.961"], F["1.175"] - F["0.390"]
    if whole:
        z = Pair(v, v.builder.add(x[7], x[3]), v.builder.add(x[5], x[1]))
        z3, z4 = z.sums(a, F["1.175"]), z.sums(F["1.175"], b)
        outer, inner = Pair(v, x[7], x[1]), Pair(v, x[5], x[3])
        odd0 = outer.sums(F["0.298"] - F["0.899"], -F["0.899"]) + z3
        odd1 = inner.sums(F["2.053"] - F["2.562"], -F["2.562"]) + z4
        odd2 = inner.sums(-F["2.562"], F["3.072"] - F["2.562"]) + z3
        odd3 = outer.sums(-F["0.899"], F["1.501"] - F["0.899"]) + z4
    else:  # the same with x[5] = x[7] = 0
        z = Pair(v, x[3], x[1])
        odd0 = z.sums(a, F["1.175"] - F["0.899"])
        odd1 = z.sums(F["1.175"] - F["2.562"], b)
        odd2 = z.sums(a + F["3.072"] - F["2.562"], F["1.175"])
        odd3 = z.sums(F["1.175"], b + F["1.501"] - F["0.899"])
    pairs = [(tmp10, odd3), (tmp11, odd2), (tmp12, odd1), (tmp13, odd0)]
    return [(p + q).descaled(bits) for p, q in pairs] + [(p - q).descaled(bits) for p, q in reversed(pairs)]


def transposed(v: IntegerVectors, x: list[ir.Value]) -> list[ir.Value]:
    """Transpose: eight vectors of int16 become eight columns, within each 128 bits."""
    for _ in range(3):  # Each round, the highest bit of the row becomes the lowest bit of the column, and all others move up.
        x = [part for k in range(4) for part in (v.low(x[k], x[k + 4]), v.high(x[k], x[k + 4]))]
    return x


def _store_rows(v: IntegerVectors, columns: list[ir.Value], out: ir.Value, stride: ir.Value) -> None:
    """Store columns of int16 samples around 0 as rows of bytes around 128. Each row has 32 bytes, block after block."""
    p = [v.packed(columns[a], columns[b]) for a, b in ((0, 2), (1, 3), (4, 6), (5, 7))]
    left, left2, right, right2 = v.low(p[0], p[1]), v.high(p[0], p[1]), v.low(p[2], p[3]), v.high(p[2], p[3])
    offset = constant(I8, left.type.count, -128)
    quarters = []
    for unpack in (v.low, v.high):
        a = v.cast(unpack(v.cast(left, I16), v.cast(left2, I16)), I32)
        b = v.cast(unpack(v.cast(right, I16), v.cast(right2, I16)), I32)
        quarters += [v.low(a, b), v.high(a, b)]
    at = out
    for rows in quarters:  # Two rows of each block.
        rows = v.cast(v.builder.xor(v.cast(rows, I8), offset), I64)
        for half in (0, 1):
            v.store(v.pick(rows, rows, [half, 2 + half, 4 + half, 6 + half]), at, 0)
            at = v.builder.add(at, stride)


def _make(count: int) -> Any:
    """The transform of blocks in which only the first `count` rows and columns have coefficients."""

    @intrinsic
    def transform(typingctx, group, factors, out, stride, hazard):
        """Transform the coefficients at `group` times `factors` (int16, each row four times) to samples at `out`: rows of 32 bytes,
        `stride` bytes apart. If the first row is too large for an exact result, a bit of `hazard` (64 bytes) is set."""

        def codegen(context, builder, signature, args):
            at, table, target, step, flags = args
            v = IntegerVectors(builder)
            lanes = ROW_BYTES // 2
            rows = []
            for k in range(count):
                row = v.load(at, ROW_BYTES * k, I16, lanes)
                rows.append(builder.mul(row, v.load(table, ROW_BYTES * k, I16, lanes)))
            wide = builder.add(rows[0], constant(I16, lanes, LARGEST_FIRST_ROW))
            wide = builder.and_(wide, constant(I16, lanes, -2 * LARGEST_FIRST_ROW))
            v.store(builder.or_(wide, v.load(flags, 0, I16, lanes)), flags, 0)
            rows = _butterflies(v, rows, CONST_BITS - PASS1_BITS)
            columns = transposed(v, rows)[:count]
            _store_rows(v, _butterflies(v, columns, CONST_BITS + PASS1_BITS + 3), target, step)
            return context.get_dummy_value()

        return kinds.void(*[kinds.int64] * 5), codegen

    return transform


transform_whole = _make(8)
transform_sparse = _make(4)
"""Like :data:`transform_whole`, for groups in which no block has more than SPARSE coefficients."""


@intrinsic
def transform_flat(typingctx, group, factors, out, stride, hazard):
    """Like :data:`transform_whole`, for groups whose blocks have only a DC coefficient."""

    def codegen(context, builder, signature, args):
        at, table, target, step, flags = args
        v = IntegerVectors(builder)
        lanes = ROW_BYTES // 2
        row = builder.mul(v.load(at, 0, I16, lanes), v.load(table, 0, I16, lanes))
        row = v.pick(row, row, [0, 8, 16, 24])
        wide = builder.and_(builder.add(row, constant(I16, 4, LARGEST_FIRST_ROW)), constant(I16, 4, -2 * LARGEST_FIRST_ROW))
        v.store(builder.or_(wide, v.load(flags, 0, I16, 4)), flags, 0)
        # Both passes together compute (x * 4 + 16) >> 5 for a block with only a DC value.
        row = builder.ashr(builder.add(builder.shl(row, constant(I16, 4, PASS1_BITS)), constant(I16, 4, 16)), constant(I16, 4, 5))
        row = builder.trunc(builder.add(v.clamped(row, -128, 127), constant(I16, 4, 128)), ir.VectorType(I8, 4))
        row = v.pick(row, row, [k // 8 for k in range(32)])
        for _ in range(8):
            v.store(row, target, 0)
            target = builder.add(target, step)
        return context.get_dummy_value()

    return kinds.void(*[kinds.int64] * 5), codegen
