"""Loops over bytes: fixed shuffles of pixels, and tables of 256 entries.

LLVM has no shuffle by a variable. So table look-ups use AVX-512's own instruction (VBMI) if the processor has it, and scalar loads
otherwise. The functions that emit code capture plain numbers only, because the keys of cached kernels are made of them (`kernel_keys`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from llvmlite import ir

from . import kinds
from .intrinsics import view_u8
from .step import inlined
from .target import processor_has
from .vectors import I8, I32, I64, call_ir, function_of, load_ir, store_ir


@cache
def has_byte_tables() -> bool:
    """Whether one instruction looks up 64 bytes in a table of 128."""
    return processor_has("avx512vbmi") and processor_has("avx512bw")


@cache
def block_bytes() -> int:
    """Number of bytes shuffled at a time: a register whose shuffle is one instruction."""
    return 64 if has_byte_tables() else 16


def shuffled_ir(builder: Any, vector: Any, places: Sequence[int], other: Any = None) -> Any:
    """The bytes of a vector (and of a second one, numbered consecutively) in another order."""
    other = ir.Constant(vector.type, ir.Undefined) if other is None else other
    return builder.shuffle_vector(vector, other, ir.Constant(ir.VectorType(I32, len(places)), list(places)))


def shuffler(places: Sequence[Sequence[int]]) -> Any:
    """``shuffle(source, out)``: a block of bytes at `source` becomes one block per list of indices, one after the other at `out`."""
    count = block_bytes()

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        block = load_ir(builder, args[0], ir.VectorType(I8, count))
        for k, own in enumerate(places):
            store_ir(builder, shuffled_ir(builder, block, own), builder.add(args[1], I64(k * count)))
        return context.get_dummy_value()

    return function_of(kinds.void(kinds.int64, kinds.int64), codegen)


def _three_loaded(builder: Any, first: Any, step: Any, kind: ir.VectorType) -> list[Any]:
    """Three vectors, `step` bytes apart."""
    return [load_ir(builder, builder.add(first, builder.mul(I64(k), step)), kind) for k in range(3)]


def _joined_ir(builder: Any, vectors: Sequence[Any], places: Sequence[int]) -> Any:
    """Elements of three vectors, which are numbered consecutively: two shuffles of two registers each."""
    count = vectors[0].type.count
    two = shuffled_ir(builder, vectors[0], [place if place < 2 * count else 0 for place in places], vectors[1])
    return shuffled_ir(builder, two, [k if place < 2 * count else place - count for k, place in enumerate(places)], vectors[2])


@cache
def divider(size: int) -> tuple[Any, int]:
    """``divide(source, out, plane)``: a block of pixels of three elements of `size` bytes becomes three rows, `plane` bytes apart. And the
    number of pixels of a block."""
    count = block_bytes() // size

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        kind = ir.VectorType(ir.IntType(8 * size), count)
        source, out, plane = args
        loaded = _three_loaded(builder, source, I64(size * count), kind)
        for c in range(3):
            made = _joined_ir(builder, loaded, [3 * k + c for k in range(count)])
            store_ir(builder, made, builder.add(out, builder.mul(I64(c), plane)))
        return context.get_dummy_value()

    return function_of(kinds.void(kinds.int64, kinds.int64, kinds.int64), codegen), count


@cache
def interleaver(size: int) -> tuple[Any, int]:
    """``interleave(source, plane, out)``: the inverse of :func:`divider`; rows are `plane` bytes apart."""
    count = block_bytes() // size

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        kind = ir.VectorType(ir.IntType(8 * size), count)
        source, plane, out = args
        loaded = _three_loaded(builder, source, plane, kind)
        for part in range(3):
            numbers = range(part * count, (part + 1) * count)
            made = _joined_ir(builder, loaded, [number % 3 * count + number // 3 for number in numbers])
            store_ir(builder, made, builder.add(out, I64(size * count * part)))
        return context.get_dummy_value()

    return function_of(kinds.void(kinds.int64, kinds.int64, kinds.int64), codegen), count


def _translated_ir(builder: Any, block: Any, tables: Sequence[Any]) -> Any:
    """Bytes looked up in a table of 256 entries, given as four vectors."""
    halves = [call_ir(builder, "llvm.x86.avx512.vpermi2var.qi.512", [a, block, b]) for a, b in (tables[:2], tables[2:])]
    upper = builder.icmp_signed("<", block, ir.Constant(block.type, [0] * 64))
    return builder.select(upper, halves[1], halves[0])


def _block_translator(tables: int) -> Any:
    """``translate(source, out, table, count)``: byte i is looked up in table i % `tables`. `count` is a multiple of 64 * tables.

    It is a separate loop, so that the tables stay in registers.
    """

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        kind = ir.VectorType(I8, 64)
        source, out, table, count = args
        loaded = [[load_ir(builder, builder.add(table, I64(256 * t + 64 * k)), kind) for k in range(4)] for t in range(tables)]
        function = builder.function
        entry = builder.block
        loop, after = function.append_basic_block("translate"), function.append_basic_block("translated")
        builder.cbranch(builder.icmp_signed(">", count, I64(0)), loop, after)
        builder.position_at_end(loop)
        i = builder.phi(I64)
        i.add_incoming(I64(0), entry)
        for part in range(tables):
            at = builder.add(i, I64(64 * part))
            block = load_ir(builder, builder.add(source, at), kind)
            made = _translated_ir(builder, block, loaded[0])
            for t in range(1, tables):
                own = ir.Constant(ir.VectorType(ir.IntType(1), 64), [(64 * part + k) % tables == t for k in range(64)])
                made = builder.select(own, _translated_ir(builder, block, loaded[t]), made)
            store_ir(builder, made, builder.add(out, at))
        following = builder.add(i, I64(64 * tables))
        i.add_incoming(following, loop)
        builder.cbranch(builder.icmp_signed("<", following, count), loop, after)
        builder.position_at_end(after)
        return context.get_dummy_value()

    return function_of(kinds.void(*[kinds.int64] * 4), codegen)


@cache
def translator(tables: int) -> Any:
    """``translate(source, out, table, count)``: bytes are looked up in consecutive tables of 256 bytes; byte i in table i % `tables`."""
    fast, whole_block = has_byte_tables() and tables in (1, 3), 64 * tables

    @inlined
    def one_by_one(source, out, table, begin, count):
        x, y, known = view_u8(source, count), view_u8(out, count), view_u8(table, 256 * tables)
        if tables == 1:
            for i in range(begin, count):
                y[i] = known[x[i]]
            return
        part = begin % tables
        for i in range(begin, count):
            y[i] = known[256 * part + x[i]]
            part = part + 1 if part + 1 < tables else 0

    if not fast:

        @inlined
        def translate(source, out, table, count):
            one_by_one(source, out, table, 0, count)

        return translate

    blocks = _block_translator(tables)

    @inlined
    def translate_blocks(source, out, table, count):
        whole = count - count % whole_block
        blocks(source, out, table, whole)
        one_by_one(source, out, table, whole, count)

    return translate_blocks

