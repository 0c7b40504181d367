"""Checksums of FLAC frames and Ogg pages: CRCs of 16 and 32 bits that take the highest bit of a byte first.

Where the processor multiplies without carries, 16 bytes are taken at a time (V. Gopal et al., Fast CRC Computation for Generic Polynomials
Using PCLMULQDQ Instruction, Intel, 2009): the checksum of a FLAC frame of 4 KB then takes 0.3 us instead of 2.4. Otherwise 8 bytes are
looked up in tables.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir

from ...compiled import kinds
from ...compiled.byte_vectors import shuffled_ir
from ...compiled.intrinsics import load_big_endian_64, load_u8, shift_right
from ...compiled.step import inlined
from ...compiled.target import processor_has
from ...compiled.vectors import I8, I32, I64, call_ir, function_of, is_x86, lanes, load_ir

_PAIR = lanes("int64", 2)


def _tables(bits: int, polynomial: int) -> np.ndarray:
    """int64[8, 256]: the checksum of each byte followed by 0 to 7 bytes of zero."""
    tables, mask = np.zeros((8, 256), np.int64), (1 << bits) - 1
    values = np.arange(256) << (bits - 8)
    for _ in range(8):
        values = ((values << 1) ^ np.where(values >> (bits - 1), polynomial, 0)) & mask
    tables[0] = values
    for k in range(1, 8):
        tables[k] = ((tables[k - 1] << 8) & mask) ^ tables[0][tables[k - 1] >> (bits - 8)]
    return tables


def _power(exponent: int, bits: int, polynomial: int) -> int:
    """x^exponent modulo the polynomial."""
    value = 1
    for _ in range(exponent):
        value = ((value << 1) ^ (polynomial if value >> (bits - 1) else 0)) & ((1 << bits) - 1)
    return value


def _block_ir(builder: Any, source: Any) -> Any:
    """16 bytes as a number of 128 bits: the first byte is the highest."""
    block = load_ir(builder, source, ir.VectorType(I8, 16))
    return builder.bitcast(shuffled_ir(builder, block, range(15, -1, -1)), ir.VectorType(I64, 2))


def _begun_ir(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    block = _block_ir(builder, args[1])
    return builder.insert_element(block, builder.xor(builder.extract_element(block, I32(1)), args[0]), I32(1))


_begun = function_of(_PAIR.kind(kinds.int64, kinds.int64), _begun_ir)
"""``_begun(upper, source)``: 16 bytes as a number, with `upper` added to its upper half."""
_upper, _lower = (
    function_of(kinds.int64(_PAIR.kind), lambda context, builder, sig, args, half=half: builder.extract_element(args[0], I32(half)))
    for half in (1, 0)
)


def _make_fold(bits: int, polynomial: int) -> Any:
    """``fold(value, source)``: a number of 128 bits whose checksum is that of the bytes of `value` and of the 16 behind them."""
    powers = [_power(exponent, bits, polynomial) for exponent in (128, 192)]

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        value, source = args
        factors = ir.Constant(value.type, powers)
        low, high = (call_ir(builder, "llvm.x86.pclmulqdq", [value, factors, I8(part)]) for part in (0x00, 0x11))
        return builder.xor(builder.xor(low, high), _block_ir(builder, source))

    return function_of(_PAIR.kind(_PAIR.kind, kinds.int64), codegen)


def make_checksum(bits: int, polynomial: int) -> Any:
    """``checksum(value, source, count)``: the checksum `value` (0 to begin) of earlier bytes, continued with `count` bytes.

    A CRC of 16 or 32 `bits`, with the bits of `polynomial` below the highest one.
    """
    tables, short = _tables(bits, polynomial), bits - 8
    mask = (1 << bits) - 1

    @inlined
    def with_word(value, word):
        word = word ^ value << (64 - bits)
        return (
            tables[7, shift_right(word, 56)] ^ tables[6, word >> 48 & 255] ^ tables[5, word >> 40 & 255] ^ tables[4, word >> 32 & 255]
            ^ tables[3, word >> 24 & 255] ^ tables[2, word >> 16 & 255] ^ tables[1, word >> 8 & 255] ^ tables[0, word & 255]
        )  # fmt: skip

    if is_x86() and processor_has("pclmul"):
        fold = _make_fold(bits, polynomial)

        @inlined
        def of_blocks(value, source, count):
            folded = _begun(value << (64 - bits), source)
            for k in range(16, count, 16):
                folded = fold(folded, source + k)
            return with_word(with_word(np.int64(0), _upper(folded)), _lower(folded))

    else:

        @inlined
        def of_blocks(value, source, count):
            for k in range(0, count, 8):
                value = with_word(value, load_big_endian_64(source + k))
            return value

    @inlined
    def checksum(value, source, count):
        whole = count & -16
        if whole > 0:
            value = of_blocks(value, source, whole)
        for k in range(whole, count):
            value = (value << 8 & mask) ^ tables[0, value >> short ^ load_u8(source + k)]
        return value

    return checksum
