"""Vectorised sums and extremes, with the results of ``reductions_kernels``.

Elements are contiguous, or every third one (a channel of interleaved pixels). Float sums keep DALI's order. A node of 264 to 512 elements
is halved four times, so it has 16 leaves of 16 to 32 elements. The leaves are lanes: sixteen rows of sixteen elements are transposed, and
the columns are added one after the other. Sums of bytes are integers; float32 represents them exactly up to 2^24, in any order.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir

from ...compiled import kinds
from ...compiled.byte_vectors import shuffled_ir
from ...compiled.convert_kernels import view
from ...compiled.intrinsics import address, local_array, smaller, view_u8
from ...compiled.kinds import Vector, from_dtype
from ...compiled.step import inlined
from ...compiled.vectors import (  # fmt: skip
    I8,
    I16,
    I32,
    I64,
    call_ir,
    element_ir,
    function_of,
    lanes,
    load_ir,
    splat_ir,
    transposed_ir,
    vector_ir,
)

LEAST, MOST = 264, 512  # Elements of a node with 16 leaves.
EXACT_BYTES = (1 << 24) // 255  # Bytes whose sum is exact in float32.
_LEAVES = 16
_new_places = local_array(np.int32, 2 * _LEAVES)


def _row_ir(builder: Any, at: Any, element: Any, apart: int) -> Any:
    """16 elements that are `apart` elements from each other."""
    if apart == 1:
        return load_ir(builder, at, ir.VectorType(element, _LEAVES))
    parts = [load_ir(builder, builder.add(at, I64(k * _LEAVES * _bytes(element))), ir.VectorType(element, _LEAVES)) for k in range(apart)]
    places = [apart * k for k in range(_LEAVES)]
    first = [place if place < 2 * _LEAVES else 0 for place in places]
    both = builder.shuffle_vector(parts[0], parts[1], ir.Constant(ir.VectorType(I32, _LEAVES), first))
    last = [k if place < 2 * _LEAVES else _LEAVES + place - 2 * _LEAVES for k, place in enumerate(places)]
    return builder.shuffle_vector(both, parts[2], ir.Constant(ir.VectorType(I32, _LEAVES), last))


def _bytes(element: Any) -> int:
    return 4 if isinstance(element, ir.FloatType) else element.width // 8


def _turned_bytes_ir(builder: Any, rows: list[Any]) -> list[Any]:
    """``transposed_ir`` of 16 rows of 16 bytes, by registers of four rows."""

    def joined(a: Any, b: Any) -> Any:
        return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(I32, 2 * a.type.count), list(range(2 * a.type.count))))

    words = ir.VectorType(I32, 16)
    quads = []
    for q in range(4):
        four = joined(joined(rows[4 * q], rows[4 * q + 1]), joined(rows[4 * q + 2], rows[4 * q + 3]))
        quads.append(builder.bitcast(shuffled_ir(builder, four, [16 * r + c for c in range(16) for r in range(4)]), words))

    def picked(a: Any, b: Any, places: list[int]) -> Any:
        return builder.shuffle_vector(a, b, ir.Constant(words, places))

    # Word c of quad q has the bytes of column c in rows 4 q to 4 q + 3. Interleave words of two quads, then pairs of words.
    columns: list[Any] = []
    for half in (0, 8):
        turns = [k // 2 + half + (16 if k % 2 else 0) for k in range(16)]
        low, high = picked(quads[0], quads[1], turns), picked(quads[2], quads[3], turns)
        for part in (0, 8):
            pairs = [part + 2 * (k // 4) + k % 2 + (16 if k % 4 >= 2 else 0) for k in range(16)]
            four = builder.bitcast(picked(low, high, pairs), ir.VectorType(I8, 64))
            columns += [shuffled_ir(builder, four, list(range(16 * k, 16 * k + 16))) for k in range(4)]
    return columns


def _float_ir(builder: Any, column: Any, signed: bool, kind: str, mean: Any) -> Any:
    """The number to add for a column: see ``reductions_kernels._values``."""
    real = ir.VectorType(ir.FloatType(), _LEAVES)
    whole = not isinstance(column.type.element, ir.FloatType)
    if whole:
        column = (builder.sext if signed else builder.zext)(column, ir.VectorType(I32, _LEAVES))
        if kind == "square":
            column = builder.mul(column, column)
        column = builder.sitofp(column, real)
    if kind == "deviation":
        column = builder.fsub(column, mean)
    return builder.fmul(column, column) if kind == "deviation" or (kind == "square" and not whole) else column


def supported(dtype: str, kind: str) -> bool:
    """Whether :func:`node_sum` supports sums of `kind` of a dtype."""
    return dtype in ("uint8", "int8", "float32") or (dtype in ("uint16", "int16") and kind != "square")


def far_sums(dtype: str) -> bool:
    """Whether there is a vector method for every third element. The shuffles for 4 bytes would take as long as the additions."""
    return np.dtype(dtype).itemsize < 4


def _leaf_sums(dtype: str, kind: str, apart: int) -> Any:
    """``leaf_sums(base, starts, mean)``: the sum of a node; starts int32[32]: first elements of the leaves, their lengths."""
    number, element = np.dtype(dtype), element_ir(from_dtype(np.dtype(dtype)))
    size, real = number.itemsize, ir.VectorType(ir.FloatType(), _LEAVES)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        base, starts, mean = args
        means = splat_ir(builder, mean, _LEAVES)
        lengths = load_ir(builder, builder.add(starts, I64(4 * _LEAVES)), ir.VectorType(I32, _LEAVES))
        begins = []
        for k in range(_LEAVES):
            start = builder.load(builder.inttoptr(builder.add(starts, I64(4 * k)), I32.as_pointer()), align=4)
            begins.append(builder.add(base, builder.mul(builder.sext(start, I64), I64(apart * size))))
        total = ir.Constant(real, [0.0] * _LEAVES)
        for block in range(2):
            shift = I64(block * _LEAVES * apart * size)
            rows = [_row_ir(builder, builder.add(begin, shift), element, apart) for begin in begins]
            columns = _turned_bytes_ir(builder, rows) if size == 1 else transposed_ir(builder, rows)
            for k, column in enumerate(columns):
                added = builder.fadd(total, _float_ir(builder, column, number.kind == "i", kind, means))
                if block == 0:
                    total = added
                    continue
                there = builder.icmp_signed(">", lengths, ir.Constant(lengths.type, [_LEAVES + k] * _LEAVES))
                total = builder.select(there, added, total)
        count = _LEAVES
        while count > 1:
            count //= 2
            kind_ir = ir.VectorType(I32, count)
            even, odd = ([2 * k + first for k in range(count)] for first in (0, 1))
            total = builder.fadd(*(builder.shuffle_vector(total, total, ir.Constant(kind_ir, part)) for part in (even, odd)))
        return builder.extract_element(total, I32(0))

    return function_of(kinds.float32(kinds.int64, kinds.int64, kinds.float32), codegen)


@cache
def node_sum(dtype: str, kind: str) -> Any:
    """``node_sum(base, apart, count, mean)``: float32 sum of a node of LEAST to MOST elements; reads 16 elements more than there are.

    `apart` is 1 or 3 elements; always 1 for types of 4 bytes, for which :func:`far_sums` is false.
    """
    near = _leaf_sums(dtype, kind, 1)
    leaves: Any
    if far_sums(dtype):
        far = _leaf_sums(dtype, kind, 3)
        leaves = inlined(lambda base, apart, places, mean: near(base, places, mean) if apart == 1 else far(base, places, mean))
    else:
        leaves = inlined(lambda base, apart, places, mean: near(base, places, mean))

    @inlined
    def node_sum(base, apart, count, mean):
        places = _new_places()
        places[0], parts = np.int32(count), np.int64(1)
        while parts < _LEAVES:
            for k in range(parts - 1, -1, -1):
                whole = places[k]
                places[2 * k], places[2 * k + 1] = whole // 2, whole - whole // 2
            parts *= 2
        start = np.int64(0)
        for k in range(_LEAVES):
            length = places[k]
            places[_LEAVES + k], places[k] = length, np.int32(start)
            start += np.int64(length)
        return leaves(base, apart, address(places), mean)

    return node_sum


_WORDS = 32
_words_kind = lanes("uint16", _WORDS).kind
_MOST_ADDED = 40  # Most blocks (of up to three registers) whose 16-bit sums stay below 2^16.


def _byte_adder(apart: int) -> Any:
    """``add(sums, at)``: add the bytes of `apart` blocks of 64, of which every `apart`-th counts, to sums of 16 bits."""
    words = ir.VectorType(I16, _WORDS)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        total = args[0]
        for block in range(apart):
            loaded = load_ir(builder, builder.add(args[1], I64(64 * block)), ir.VectorType(I8, 64))
            if apart > 1:
                counts = ir.Constant(loaded.type, [255 if (64 * block + k) % apart == 0 else 0 for k in range(64)])
                loaded = builder.and_(loaded, counts)
            pairs = builder.bitcast(loaded, words)
            total = builder.add(total, builder.and_(pairs, ir.Constant(words, [255] * _WORDS)))
            total = builder.add(total, builder.lshr(pairs, ir.Constant(words, [8] * _WORDS)))
        return total

    return function_of(_words_kind(_words_kind, kinds.int64), codegen)


def _words_total_ir(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    wide = builder.zext(args[0], ir.VectorType(I32, _WORDS))
    return builder.zext(call_ir(builder, f"llvm.vector.reduce.add.v{_WORDS}i32", [wide], I32), I64)


_words_total = function_of(kinds.int64(_words_kind), _words_total_ir)
_add_near, _add_far, _no_words = _byte_adder(1), _byte_adder(3), lanes("uint16", _WORDS).splat


@inlined
def byte_sum(base, apart, count):
    """The sum of `count` bytes that are `apart` (1 or 3) bytes from each other, as int64."""
    total, done = np.int64(0), 0
    while done + 64 < count:
        sums, added = _no_words(np.uint16(0)), 0
        while done + 64 < count and added < _MOST_ADDED:
            sums = _add_near(sums, base + done) if apart == 1 else _add_far(sums, base + 3 * done)
            done += 64
            added += 1
        total += _words_total(sums)
    rest = view_u8(base, apart * count)
    for i in range(done, count):
        total += np.int64(rest[apart * i])
    return total


EXACT_SQUARES = (1 << 24) // 255**2  # Bytes whose squares have a sum that is exact in float32.
SQUARES_READ = 64  # Bytes that `square_sum` may read behind the last one.
_sums_kind = lanes("int32", 16)


def _square_adder(some: bool) -> Any:
    """``add(sums, at, valid)``: add the squares of 64 bytes to 16 sums; with `some`, of the first `valid` bytes."""
    words, wide = ir.VectorType(I16, 32), ir.VectorType(I32, 16)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        total, at, valid = args
        loaded = load_ir(builder, at, ir.VectorType(I8, 64))
        if some:
            there = builder.icmp_unsigned("<", ir.Constant(loaded.type, list(range(64))), splat_ir(builder, builder.trunc(valid, I8), 64))
            loaded = builder.select(there, loaded, ir.Constant(loaded.type, [0] * 64))
        for half in (0, 32):
            own = builder.zext(shuffled_ir(builder, loaded, list(range(half, half + 32))), words)
            squares = builder.bitcast(builder.mul(own, own), wide)  # A square has 16 bits, without a sign.
            total = builder.add(total, builder.and_(squares, ir.Constant(wide, [0xFFFF] * 16)))
            total = builder.add(total, builder.lshr(squares, ir.Constant(wide, [16] * 16)))
        return total

    return function_of(_sums_kind.kind(_sums_kind.kind, kinds.int64, kinds.int64), codegen)


_add_squares, _add_some_squares = _square_adder(False), _square_adder(True)
_no_sums, _sums_total = _sums_kind.splat, _sums_kind.total


@inlined
def square_sum(base, count):
    """The sum of the squares of up to EXACT_SQUARES bytes, as float32."""
    sums, done = _no_sums(np.int32(0)), 0
    while done + 64 <= count:
        sums = _add_squares(sums, base + done, 64)
        done += 64
    sums = _add_some_squares(sums, base + done, count - done)
    return np.float32(_sums_total(sums))


def _extreme_block(dtype: str, largest: bool, apart: int) -> Any:
    """``block(found, at)``: a vector of the best elements so far, and `apart` vectors of which every `apart`-th element counts."""
    count = 64 // np.dtype(dtype).itemsize
    kind: Vector = lanes(dtype, count).kind
    shape, signed = vector_ir(kind), np.dtype(dtype).kind == "i"

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        found = args[0]
        symbol = ">" if largest else "<"
        for block in range(apart):
            loaded = load_ir(builder, builder.add(args[1], I64(64 * block)), shape)
            if kind.element.is_float:
                better = builder.fcmp_ordered(symbol, loaded, found)
            else:
                better = (builder.icmp_signed if signed else builder.icmp_unsigned)(symbol, loaded, found)
            if apart > 1:
                counts = [(count * block + k) % apart == 0 for k in range(count)]
                better = builder.and_(better, ir.Constant(ir.VectorType(ir.IntType(1), count), counts))
            found = builder.select(better, loaded, found)
        return found

    return function_of(kind(kind, kinds.int64), codegen)


@cache
def extreme_of(dtype: str, largest: bool) -> Any:
    """``extreme(base, apart, count, start)``: the best of `start` and `count` elements `apart` (1 or 3) elements from each other."""
    size, own = np.dtype(dtype).itemsize, lanes(dtype, 64 // np.dtype(dtype).itemsize)
    near, far = _extreme_block(dtype, largest, 1), _extreme_block(dtype, largest, 3)
    width, splat, store = own.count, own.splat, own.store
    new_lanes = local_array(np.dtype(dtype), width)
    elements = view(dtype)

    @inlined
    def extreme(base, apart, count, start):
        found, done, kept = splat(start), 0, new_lanes()
        while done + width < count:
            found = near(found, base + size * done) if apart == 1 else far(found, base + 3 * size * done)
            done += width
        store(address(kept), found)
        best, rest = start, elements(base, apart * count)
        for k in range(width):
            x = kept[k]
            if x > best if largest else x < best:
                best = x
        for i in range(done, count):
            x = rest[apart * i]
            if x > best if largest else x < best:
                best = x
        return best

    return extreme


_four = lanes("float32", 4)
_load, _splat, _store = _four.load, _four.splat, _four.store
_new_four = local_array(np.float32, 4)


@cache
def pixel_chunks(kind: str) -> Any:
    """``chunks(base, count, means, sums)``: 66 to 128 pixels of three float32, four chains of additions; float32[3] to `sums`.

    The nodes are halved twice, as in ``reductions_kernels`` for one axis. Reads one number behind the last pixel.
    """

    @inlined
    def taken(at, mean):
        x = _load(at)
        if kind == "deviation":
            x = x - mean
        return x if kind == "value" else x * x

    @inlined
    def chunks(base, count, means, sums):
        half = count // 2
        n0, n2 = half // 2, (count - half) // 2
        b, c = base + 12 * n0, base + 12 * half
        d = c + 12 * n2
        four = _new_four()
        four[0], four[1], four[2], four[3] = means[0], means[1], means[2], np.float32(0)
        mean = _load(address(four))
        s0 = s1 = s2 = s3 = _splat(np.float32(0))
        shared = smaller(n0, n2)
        for i in range(0, 12 * shared, 12):
            s0 = s0 + taken(base + i, mean)
            s1 = s1 + taken(b + i, mean)
            s2 = s2 + taken(c + i, mean)
            s3 = s3 + taken(d + i, mean)
        for i in range(12 * shared, 12 * n0, 12):
            s0 = s0 + taken(base + i, mean)
        for i in range(12 * shared, 12 * (half - n0), 12):
            s1 = s1 + taken(b + i, mean)
        for i in range(12 * shared, 12 * n2, 12):
            s2 = s2 + taken(c + i, mean)
        for i in range(12 * shared, 12 * (count - half - n2), 12):
            s3 = s3 + taken(d + i, mean)
        _store(address(four), (s0 + s1) + (s2 + s3))
        sums[0], sums[1], sums[2] = four[0], four[1], four[2]

    return chunks
