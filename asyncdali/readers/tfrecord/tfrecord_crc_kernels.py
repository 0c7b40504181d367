"""CRC-32C (Castagnoli): the processor's instruction where it has one, a table elsewhere."""

from __future__ import annotations

import numpy as np
from llvmlite import ir

from ...compiled import kinds
from ...compiled.intrinsics import I64, load_i64, load_u8
from ...compiled.kinds import cgutils, intrinsic
from ...compiled.step import compiled, inlined
from ...compiled.target import processor_has

_TABLE = np.arange(256, dtype=np.uint32)
for _ in range(8):
    _TABLE = np.where(_TABLE & 1, (_TABLE >> 1) ^ np.uint32(0x82F63B78), _TABLE >> 1).astype(np.uint32)

HARDWARE = processor_has("sse4.2")


@intrinsic
def _crc_word(typingctx, crc, word):
    """Eight more bytes."""

    def codegen(context, builder, signature, args):
        function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(I64, [I64, I64]), "llvm.x86.sse42.crc32.64.64")
        return builder.call(function, args)

    return kinds.int64(kinds.int64, kinds.int64), codegen


def _by_table(address, count, crc):
    table = _TABLE
    for k in range(count):
        crc = np.int64(table[(crc ^ load_u8(address + k)) & 0xFF]) ^ (crc >> 8)
    return crc


_bytewise = inlined(_by_table)


_LANE = 2048
"""Bytes of each of three runs whose checksums are computed in parallel, because the instruction has a latency of three cycles."""


def _times_matrix(columns: list[int], vector: int) -> int:
    result = 0
    for k, column in enumerate(columns):
        if vector >> k & 1:
            result ^= column
    return result


def _lane_table() -> np.ndarray:
    """The change of a checksum when a run of zeros follows: uint32[4, 256], by its bytes.

    A zero byte is a linear map of the checksum's bits. Squared eleven times it is the map of 2048 zero bytes.
    """
    columns = [int(_TABLE[(1 << k) & 0xFF]) ^ ((1 << k) >> 8) for k in range(32)]
    for _ in range(_LANE.bit_length() - 1):
        columns = [_times_matrix(columns, column) for column in columns]
    return np.array([[_times_matrix(columns, byte << 8 * k) for byte in range(256)] for k in range(4)], np.uint32)


_LANES = _lane_table()


@inlined
def _after_lane(crc):
    table = _LANES
    return np.int64(table[0, crc & 0xFF] ^ table[1, (crc >> 8) & 0xFF] ^ table[2, (crc >> 16) & 0xFF] ^ table[3, (crc >> 24) & 0xFF])


def _by_words(address, count, crc):
    while count >= 3 * _LANE:
        second, third = np.int64(0), np.int64(0)
        for k in range(address, address + _LANE, 8):
            crc = _crc_word(crc, load_i64(k))
            second = _crc_word(second, load_i64(k + _LANE))
            third = _crc_word(third, load_i64(k + 2 * _LANE))
        crc = _after_lane(_after_lane(crc) ^ second) ^ third
        address += 3 * _LANE
        count -= 3 * _LANE
    words = count >> 3
    for k in range(words):
        crc = _crc_word(crc, load_i64(address + 8 * k))
    return _bytewise(address + 8 * words, count & 7, crc)


_run = inlined(_by_words) if HARDWARE else _bytewise


@inlined
def crc32c(address, count):
    """CRC-32C of `count` bytes at `address`."""
    return _run(address, count, np.int64(0xFFFFFFFF)) ^ np.int64(0xFFFFFFFF)


@compiled(2)
def checksum(address, count):
    """The same for Python."""
    return crc32c(address, count)
