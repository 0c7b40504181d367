"""Huffman codes to coefficients (ITU-T T.81, F.2.2), a row of MCUs at a time."""

from __future__ import annotations

import numpy as np

from ...compiled.intrinsics import load_i64, load_u16, shift_left, shift_right, store_i16, store_i64, store_u8
from ...compiled.step import inlined
from .bit_reader import refilled
from .fields import offsets
from .huffman import AC_BITS, END_OF_BLOCK, ENTRIES, LARGEST_AC, LARGEST_DC, SLOW, extended, slow_symbol, symbol_of

# Coefficients of four blocks side by side are interleaved: row 0 of each block, row 1 of each block, ...; int16.
GROUP_BLOCKS = 4
ROW_BYTES = 16 * GROUP_BLOCKS
GROUP_BYTES = 9 * ROW_BYTES
"""Nine rows: broken data can have values behind the 64th coefficient, and these are written to the ninth row."""

# The decoder's state between two rows: the reservoir, the number of blocks that an end-of-band run still covers (progressive.py), then the
# last DC values of the components.
BUFFER, COUNT, AT, LIMIT, END_RUN, LAST_DC = offsets(6)
STATE_BYTES = LAST_DC + 3 * 8

# The blocks of an MCU in order, one record each.
DC_TABLE, AC_TABLE, LAST, FIRST_GROUP, BLOCKS_PER_MCU, COLUMN, BLOCK_ROW, LENGTHS = offsets(8)
BLOCK_BYTES = 64
"""LAST: address of the component's last DC value. FIRST_GROUP: address of the block row's coefficients; 0 if they are not needed. COLUMN,
BLOCK_ROW: position of the block within its MCU. LENGTHS: address of a byte per block of the row: the number of coefficients up to the
last one that is not 0."""

# uint16: offset of coefficient k (zigzag order) within its group. Invalid files have coefficients behind the 64th: a ninth row takes them.
_ZIGZAG = [
    0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7, 14, 21, 28,
    35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
]  # fmt: skip
PLACES = np.array([ROW_BYTES * (k // 8) + 2 * (k % 8) for k in _ZIGZAG] + [8 * ROW_BYTES] * 64, np.uint16)


@inlined
def _slow_ac(table, buffer, k, block, places):
    """Decode one AC symbol of any code: (bits consumed, the next k, whether the code is valid)."""
    found = slow_symbol(table, shift_right(buffer, 48))
    bits, run, size = found & 255, (found >> 12) & 15, (found >> 8) & 15
    if found < 0 or size > LARGEST_AC:
        return np.int64(0), np.int64(0), False
    if size == 0:
        return bits, k + (16 if run == 15 else END_OF_BLOCK), True
    value = extended(shift_right(shift_left(buffer, bits), 64 - size), size)
    store_i16(block + np.int64(load_u16(places + 2 * (k + run))), np.int16(value))
    return bits + size, k + run + 1, True


@inlined
def _take(entry, bits, buffer, block, places, k):
    """Store the coefficients of an entry; returns the next k.

    A value that is not in the index is computed for every entry: a branch would often be mispredicted (at quality 98 in one look-up of
    six).
    """
    size = (entry >> 32) & 15
    raw = shift_right(shift_left(buffer, bits - size), 64 - size)
    computed = raw + (((raw >> (size - 1)) - 1) & (1 - shift_left(1, size)))
    outside = (AC_BITS - bits) >> 63
    store_i16(block + np.int64(load_u16(places + 2 * (k + ((entry >> 16) & 255)))), np.int16(computed & outside | (entry >> 32) & ~outside))
    store_i16(block + np.int64(load_u16(places + 2 * (k + ((entry >> 24) & 255)))), np.int16(entry >> 48))
    return k + ((entry >> 8) & 255)


@inlined
def dc_difference(table, buffer):
    """(the difference at the start of the bits, its length in bits; 0 for an invalid code)."""
    entry = symbol_of(table, buffer)
    if entry < 0 or entry >> 8 > LARGEST_DC:
        return np.int64(0), np.int64(0)
    bits, size = entry & 255, entry >> 8
    value = shift_left(buffer, bits)
    # Two shifts leave 0 for a size of 0. Negative values begin with a 0 bit.
    lowest = np.int64(0) if value < 0 else 1 - shift_left(1, size)
    return shift_right(shift_right(value, 1), 63 - size) + lowest, bits + size


@inlined
def decode_row(state, blocks, stop, places, first, last):
    """Decode MCUs `first` to `last` of a row into their zero-initialised coefficients. Returns whether all codes were valid.

    `blocks`..`stop` are the records of an MCU's blocks. The caller must check, from the state, that the data was long enough. This function
    only prevents reads far beyond the end.
    """
    buffer, count, at = load_i64(state + BUFFER), load_i64(state + COUNT), load_i64(state + AT)
    limit = load_i64(state + LIMIT)
    for mcu in range(first, last):
        for spec in range(blocks, stop, BLOCK_BYTES):
            if at > limit:
                return False
            column = mcu * load_i64(spec + BLOCKS_PER_MCU) + load_i64(spec + COLUMN)
            block = load_i64(spec + FIRST_GROUP) + (column >> 2) * GROUP_BYTES + (column & 3) * 16
            buffer, count, at = refilled(buffer, count, at)
            value, bits = dc_difference(load_i64(spec + DC_TABLE), buffer)
            if bits == 0:
                return False
            buffer, count = shift_left(buffer, bits), count - bits
            seat = load_i64(spec + LAST)
            value += load_i64(seat)
            store_i64(seat, value)
            table = load_i64(spec + AC_TABLE)
            if load_i64(spec + FIRST_GROUP) == 0:
                buffer, count, at, known = _skip_ac(table, buffer, count, at)
                if not known:
                    return False
                continue
            store_i16(block, np.int16(value))
            entries = table + ENTRIES
            k = np.int64(1)
            while k < 64:
                buffer, count, at = refilled(buffer, count, at)
                for _ in range(3):  # Each takes at most MOST_BITS.
                    entry = load_i64(entries + 8 * shift_right(buffer, 64 - AC_BITS))
                    bits = entry & 255
                    if bits == SLOW:
                        break
                    before = k
                    k = _take(entry, bits, buffer, block, places, k)
                    if k >= 64:
                        break
                    buffer, count = shift_left(buffer, entry), count - bits
                if bits != SLOW:
                    if k < 64:
                        continue
                    # If the first symbol ended the block, the second symbol must not be used.
                    if k != 64 and (k < END_OF_BLOCK or k >= END_OF_BLOCK + 64):
                        bits, k, known = _slow_ac(table, buffer, before, block, places)
                        if k != 64:
                            return False
                else:  # Up to 26 bits.
                    buffer, count, at = refilled(buffer, count, at)
                    bits, k, known = _slow_ac(table, buffer, k, block, places)
                    if not known or 64 < k < END_OF_BLOCK:
                        return False
                buffer, count = shift_left(buffer, bits), count - bits
            store_u8(load_i64(spec + LENGTHS) + column, np.uint8(k & 127))
    store_i64(state + BUFFER, buffer)
    store_i64(state + COUNT, count)
    store_i64(state + AT, at)
    return True


@inlined
def _slow_skip(table, buffer, k):
    """Like `_slow_ac`, without storing: (bits, next k, whether the code is valid)."""
    found = slow_symbol(table, shift_right(buffer, 48))
    bits, run, size = found & 255, (found >> 12) & 15, (found >> 8) & 15
    if size == 0:
        return bits, k + (16 if run == 15 else END_OF_BLOCK), found >= 0
    return bits + size, k + run + 1, found >= 0 and size <= LARGEST_AC


@inlined
def _skip_ac(table, buffer, count, at):
    """Skip the AC coefficients of a block: (buffer, count, at, whether all codes are valid)."""
    entries = table + ENTRIES
    k = np.int64(1)
    while True:
        buffer, count, at = refilled(buffer, count, at)
        for _ in range(3):  # Each takes at most MOST_BITS.
            entry = load_i64(entries + 8 * shift_right(buffer, 64 - AC_BITS))
            before, known = k, True
            bits = entry & 255
            slow = bits == SLOW
            k += (entry >> 8) & 255
            if slow:  # Up to 26 bits.
                buffer, count, at = refilled(buffer, count, at)
                bits, k, known = _slow_skip(table, buffer, before)
            if k >= 64 and k != 64 and (k < END_OF_BLOCK or k >= END_OF_BLOCK + 64):
                bits, k, known = _slow_skip(table, buffer, before)
                known = known and k == 64
            if not known:
                return buffer, count, at, False
            buffer, count = shift_left(buffer, bits), count - bits
            if k >= 64:
                return buffer, count, at, True
            if slow:
                break


@inlined
def skip_row(state, blocks, stop, number):
    """Decode only the DC values of `number` MCUs. Returns whether all codes are valid. See :func:`decode_row`."""
    buffer, count, at = load_i64(state + BUFFER), load_i64(state + COUNT), load_i64(state + AT)
    limit = load_i64(state + LIMIT)
    for _ in range(number):
        for spec in range(blocks, stop, BLOCK_BYTES):
            if at > limit:
                return False
            buffer, count, at = refilled(buffer, count, at)
            value, bits = dc_difference(load_i64(spec + DC_TABLE), buffer)
            if bits == 0:
                return False
            buffer, count = shift_left(buffer, bits), count - bits
            seat = load_i64(spec + LAST)
            store_i64(seat, load_i64(seat) + value)
            buffer, count, at, known = _skip_ac(load_i64(spec + AC_TABLE), buffer, count, at)
            if not known:
                return False
    store_i64(state + BUFFER, buffer)
    store_i64(state + COUNT, count)
    store_i64(state + AT, at)
    return True
