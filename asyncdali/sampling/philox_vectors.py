"""Philox4x32-10 words and normal numbers for many elements at a time, bit-identical to ``random_streams_kernels``.

Element e of a sample has the words from offset + 257 e on. 257 * 4 is a multiple of the four words of a block, so elements that are four
apart have their words in the same lanes of their blocks. Therefore `ELEMENTS` elements are computed as four vectors of eight blocks. The
words of the first element must start a block.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from ..compiled import kinds
from ..compiled.c_library import cosf_ir, logf_ir
from ..compiled.vectors import I32, I64, call_ir, function_of, lanes, splat_ir, store_ir

if TYPE_CHECKING:
    from numba.core.base import BaseContext

ELEMENTS = 32
_ROWS, _LANES = 4, 8
_MULTIPLIERS, _KEY_STEPS, _MASK = (0xD2511F53, 0xCD9E8D57), (0x9E3779B9, 0xBB67AE85), 0xFFFFFFFF
_ELEMENT_STRIDE = 257
_BLOCK_STRIDE = _ELEMENT_STRIDE * _ROWS // 4  # Blocks between two lanes.


def philox_ir(builder: ir.IRBuilder, key: ir.Value, hi: ir.Value, lo: ir.Value, blocks: ir.Value) -> list[ir.Value]:
    """The four words of several blocks, as four vectors of 64-bit integers.

    `key`, `hi`, `lo`: int64 scalars, the key and the counter (`hi` is its upper half). `blocks`: a vector of int64, the distances of the
    blocks from that counter.
    """
    count = blocks.type.count

    def number(value: int) -> ir.Value:
        return splat_ir(builder, I64(value), count)

    first = splat_ir(builder, lo, count)
    low = builder.add(first, blocks)
    carry = builder.zext(builder.icmp_unsigned("<", low, first), blocks.type)
    high = builder.add(splat_ir(builder, hi, count), carry)
    mask, half = number(_MASK), number(32)
    c0, c1, c2, c3 = builder.and_(low, mask), builder.lshr(low, half), builder.and_(high, mask), builder.lshr(high, half)
    k0, k1 = builder.and_(key, I64(_MASK)), builder.lshr(key, I64(32))
    for _ in range(10):
        a, b = builder.mul(c0, number(_MULTIPLIERS[0])), builder.mul(c2, number(_MULTIPLIERS[1]))
        c0, c1, c2, c3 = (
            builder.xor(builder.xor(builder.lshr(b, half), c1), splat_ir(builder, k0, count)), builder.and_(b, mask),
            builder.xor(builder.xor(builder.lshr(a, half), c3), splat_ir(builder, k1, count)), builder.and_(a, mask),
        )  # fmt: skip
        k0 = builder.and_(builder.add(k0, I64(_KEY_STEPS[0])), I64(_MASK))
        k1 = builder.and_(builder.add(k1, I64(_KEY_STEPS[1])), I64(_MASK))
    return [c0, c1, c2, c3]


def _rows_ir(builder: ir.IRBuilder, key: ir.Value, hi: ir.Value, lo: ir.Value, offset: ir.Value, more: int) -> list[list[ir.Value]]:
    """`more` words of each element, as int32[8] vectors: one list for each of the four rows (row r has elements r, r + 4, ...)."""
    kind, narrow = ir.VectorType(I64, _LANES), ir.VectorType(I32, _LANES)
    first = builder.lshr(offset, I64(2))

    def block(number: int) -> list[ir.Value]:
        places = ir.Constant(kind, [_BLOCK_STRIDE * k + number for k in range(_LANES)])
        return philox_ir(builder, key, hi, lo, builder.add(splat_ir(builder, first, _LANES), places))

    rows = []
    for row in range(_ROWS):
        words = block(row * _ELEMENT_STRIDE // 4)
        if row + more > 4:
            words = words + block(row * _ELEMENT_STRIDE // 4 + 1)
        rows.append([builder.trunc(word, narrow) for word in words[row : row + more]])
    return rows


def _interleaved_ir(builder: ir.IRBuilder, rows: list[ir.Value]) -> ir.Value:
    """Merge four vectors of eight into one of 32: element 4 k + r is element k of vector r."""

    def joined(a: ir.Value, b: ir.Value) -> ir.Value:
        return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(I32, 2 * a.type.count), list(range(2 * a.type.count))))

    both = joined(rows[0], rows[1]), joined(rows[2], rows[3])
    places = [_LANES * (e % _ROWS) + e // _ROWS for e in range(ELEMENTS)]
    return builder.shuffle_vector(*both, ir.Constant(ir.VectorType(I32, ELEMENTS), places))


def _unit_ir(builder: ir.IRBuilder, words: ir.Value) -> ir.Value:
    """Words as float32 in [0, 1]."""
    kind = ir.VectorType(ir.FloatType(), words.type.count)
    return builder.fmul(builder.uitofp(words, kind), ir.Constant(kind, [2.0**-32] * words.type.count))


def _words() -> Any:
    def codegen(context: BaseContext, builder: ir.IRBuilder, sig: object, args: Sequence[ir.Value]) -> ir.Value:
        key, hi, lo, offset, out = args
        store_ir(builder, _interleaved_ir(builder, [row[0] for row in _rows_ir(builder, key, hi, lo, offset, 1)]), out)
        return context.get_dummy_value()

    return function_of(kinds.void(*[kinds.int64] * 5), codegen)


words_32 = _words()
"""``words_32(key, hi, lo, offset, out)``: the word of each element as uint32[32]; `offset` of the first one is a multiple of 4."""


def _normals() -> Any:
    def codegen(context: BaseContext, builder: ir.IRBuilder, sig: object, args: Sequence[ir.Value]) -> ir.Value:
        key, hi, lo, offset, out = args
        rows = _rows_ir(builder, key, hi, lo, offset, 2)
        u1, u2 = (_unit_ir(builder, _interleaved_ir(builder, [row[k] for row in rows])) for k in (0, 1))
        kind = u1.type

        def number(value: float) -> ir.Value:
            return ir.Constant(kind, [float(np.float32(value))] * ELEMENTS)

        nothing = builder.fcmp_ordered("==", u1, number(0))
        u1, u2 = builder.select(nothing, u2, u1), builder.select(nothing, u1, u2)
        u1 = builder.select(builder.fcmp_ordered("==", u1, number(0)), number(1e-30), u1)
        radius = call_ir(builder, f"llvm.sqrt.v{ELEMENTS}f32", [builder.fmul(number(-2), logf_ir(builder, u1))])
        store_ir(builder, builder.fmul(radius, cosf_ir(builder, builder.fmul(number(2 * math.pi), u2))), out)
        return context.get_dummy_value()

    return function_of(kinds.void(*[kinds.int64] * 5), codegen)


normals_32 = _normals()
"""``normals_32(key, hi, lo, offset, out)``: the standard normal number of each element as float32[32]; see ``words_32``.

Use it only if ``c_library.same_as_platform()``.
"""


@cache
def blocks_of(count: int) -> Any:
    """``blocks(key, hi, lo, block)``: the four words of a block, as vectors of `count` uint64.

    Lane 0 is block number `block`, lane k that of the element 4 k elements later.
    """
    kind = lanes("uint64", count).kind
    result = kinds.Repeated(kind, 4)

    def codegen(context: BaseContext, builder: ir.IRBuilder, sig: object, args: Sequence[ir.Value]) -> ir.Value:
        key, hi, lo, block = args
        places = ir.Constant(ir.VectorType(I64, count), [_BLOCK_STRIDE * k for k in range(count)])
        words = philox_ir(builder, key, hi, lo, builder.add(splat_ir(builder, block, count), places))
        return context.make_tuple(builder, result.of_numba, words)

    return function_of(result(*[kinds.int64] * 4), codegen)
