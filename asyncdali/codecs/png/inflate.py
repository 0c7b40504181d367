"""Inflate: the decoder of deflated data (RFC 1951) in a zlib stream (RFC 1950).

Codes are looked up in tables of two levels, by the next bits. Filtered rows of photographs are nearly all literals, so up to three literal
entries are decoded per refill of the bit buffer. The output has room for the longest match behind its end, so the end is checked once per
symbol.
"""

from __future__ import annotations

import numpy as np

from ...compiled.intrinsics import (
    clear_bytes,
    copy_bytes,
    load_big_endian_64,
    load_i32,
    load_little_endian_64,
    load_u8,
    shift_left,
    shift_right,
    store_i32,
    store_u8,
    store_u16,
    view_u8,
)
from ...compiled.step import inlined

BROKEN = 1
"""Status: the data is damaged, or does not end where it should."""
SLACK = 320
"""Number of bytes behind the output that the decoder may overwrite."""
PADDING = 64
"""Zero bytes behind the input."""

_LITERAL_BITS, _DISTANCE_BITS, _ORDER_BITS = 11, 8, 7
_LITERALS, _DISTANCES = 288, 32
# Entries of the tables have 32 bits. Every kind has the length of the code at bit 0. The other fields, with their first bits:
#   literals      the sign; 24: how many literals; 8: the literals
#   length        16: the base; 8: number of extra bits
#   distance      12: the base; 8: number of extra bits
#   second level  8: place of the table; 24: number of bits that index it
_LITERAL, _END, _DEEPER = -(1 << 31), 1 << 30, 1 << 29
# Offsets of the parts of the work memory, in bytes. A second level has at most as many entries as two codes of 15 bits per symbol.
_LENGTHS = 0
_COUNTS = 512
_DEPTHS = _COUNTS + 256
_LITERAL_TABLE = _DEPTHS + (1 << _LITERAL_BITS)
_DISTANCE_TABLE = _LITERAL_TABLE + 4 * ((1 << _LITERAL_BITS) + 2048)
_ORDER_TABLE = _DISTANCE_TABLE + 4 * ((1 << _DISTANCE_BITS) + 4096)
WORK_BYTES = _ORDER_TABLE + 4 * (1 << _ORDER_BITS)

_ORDER = np.array([16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15], np.int64)


def _steps(first: int, groups: int, each: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """(smallest values, extra bits) of codes whose number of extra bits grows by one with every `each` codes after `groups`."""
    extra = np.array([max(0, (k - groups) // each) for k in range(count)], np.int64)
    return first + np.cumsum(1 << extra) - (1 << extra), extra


_LENGTH_BASE, _LENGTH_EXTRA = _steps(3, 4, 4, 29)
_LENGTH_BASE[28], _LENGTH_EXTRA[28] = 258, 0
_DISTANCE_BASE, _DISTANCE_EXTRA = _steps(1, 2, 2, 30)


@inlined
def _literal_entry(symbol):
    """The entry of a symbol without its code's bits; 0 for symbols that must not occur."""
    if symbol < 256:
        return np.int64(_LITERAL) | 1 << 24 | symbol << 8
    if symbol == 256:
        return np.int64(_END)
    if symbol > 285:
        return np.int64(0)
    return _LENGTH_BASE[symbol - 257] << 16 | _LENGTH_EXTRA[symbol - 257] << 8


@inlined
def _entry(symbol, kind):
    """The entry of a symbol of a table: 0 literals and lengths, 1 distances, 2 lengths of codes."""
    if kind == 0:
        return _literal_entry(symbol)
    if kind == 1:
        return _DISTANCE_BASE[symbol] << 12 | _DISTANCE_EXTRA[symbol] << 8 if symbol < 30 else np.int64(0)
    return symbol << 16


@inlined
def _reversed(code, bits):
    turned = np.int64(0)
    for _ in range(bits):
        turned = turned << 1 | (code & 1)
        code = code >> 1
    return turned


@inlined
def _next_codes(work, lengths, symbols):
    """Count the codes of each length, and find the first code of each. Returns the number of unused codes of 15 bits; below 0: too many
    codes are used."""
    left, code = np.int64(1 << 15), np.int64(0)
    clear_bytes(work + _COUNTS, 256)
    for k in range(symbols):
        length = load_u8(lengths + k)
        at = work + _COUNTS + 4 * np.int64(length)
        store_i32(at, load_i32(at) + 1)
        if length > 0:
            left -= np.int64(1) << (15 - np.int64(length))
    for length in range(1, 16):
        found = np.int64(load_i32(work + _COUNTS + 4 * length))
        store_i32(work + _COUNTS + 128 + 4 * length, np.int32(code))
        code = (code + found) << 1
    return left


@inlined
def _build(work, lengths, symbols, table, bits, kind):
    """Fill a table from the lengths of the codes. Returns a status."""
    left = _next_codes(work, lengths, symbols)
    if left < 0:
        return BROKEN
    if left > 0:  # zlib allows one distance of one bit, or none
        used = symbols - np.int64(load_i32(work + _COUNTS))
        if kind != 1 or used > 1 or (used == 1 and load_i32(work + _COUNTS + 4) != 1):
            return BROKEN
        clear_bytes(table, 4 << bits)
    size = np.int64(1) << bits
    # The longest code behind each prefix decides the size of its second level.
    deep = np.int64(0)
    for longer in range(bits + 1, 16):
        deep += np.int64(load_i32(work + _COUNTS + 4 * longer))
    place = size
    if deep > 0:
        clear_bytes(work + _DEPTHS, size)
    for turn in range(2 if deep > 0 else 1):
        if turn == 1:
            for prefix in range(size):
                depth = np.int64(load_u8(work + _DEPTHS + prefix))
                if depth > 0:
                    store_i32(table + 4 * prefix, np.int32(_DEEPER | depth << 24 | place << 8 | bits))
                    place += np.int64(1) << depth
            _next_codes(work, lengths, symbols)
        for symbol in range(symbols):
            length = np.int64(load_u8(lengths + symbol))
            if length == 0:
                continue
            at = work + _COUNTS + 128 + 4 * length
            code = np.int64(load_i32(at))
            store_i32(at, np.int32(code + 1))
            if length > bits:
                turned = _reversed(code, length)
                prefix = turned & (size - 1)
                if turn == 0:
                    if length - bits > np.int64(load_u8(work + _DEPTHS + prefix)):
                        store_u8(work + _DEPTHS + prefix, np.uint8(length - bits))
                else:
                    head = np.int64(load_i32(table + 4 * prefix))
                    start, room = head >> 8 & 0xFFFF, np.int64(1) << (head >> 24 & 15)
                    made = np.int32(_entry(symbol, kind) | length)
                    for k in range(turned >> bits, room, np.int64(1) << (length - bits)):
                        store_i32(table + 4 * (start + k), made)
            elif turn == 0:
                made = np.int32(_entry(symbol, kind) | length)
                for k in range(_reversed(code, length), size, np.int64(1) << length):
                    store_i32(table + 4 * k, made)
    return 0


@inlined
def _pair_literals(table):
    """Merge entries of the first level, so that one entry stands for two literals, where both codes fit into the index."""
    for k in range((1 << _LITERAL_BITS) - 1, -1, -1):
        entry = np.int64(load_i32(table + 4 * k))
        if entry < 0:
            bits = entry & 63
            other = np.int64(load_i32(table + 4 * (k >> bits)))
            if other < 0 and bits + (other & 63) <= _LITERAL_BITS:
                store_i32(table + 4 * k, np.int32(entry + (1 << 24) + (other & 63) + ((other >> 8 & 255) << 16)))


@inlined
def _take_literals(entry, out):
    """Write the literals of an entry. Returns the address behind them."""
    store_u16(out, np.uint16(entry >> 8))
    return out + (entry >> 24 & 3)


@inlined
def _refilled(buffer, count, at):
    """(buffer, count, at) with at least 56 valid bits in the buffer, from its lowest bit up."""
    return buffer | shift_left(load_little_endian_64(at), count), count | 56, at + ((63 - count) >> 3)


@inlined
def _fixed_lengths(lengths):
    for k in range(_LITERALS):
        store_u8(lengths + k, np.uint8(8 if k < 144 else 9 if k < 256 else 7 if k < 280 else 8))
    for k in range(_DISTANCES):
        store_u8(lengths + _LITERALS + k, np.uint8(5))


@inlined
def _read_lengths(buffer, count, at, stop, work):
    """Read the lengths of both codes of a block: (buffer, count, at, literals, distances). `literals` is 0 if the data is damaged."""
    lengths = work + _LENGTHS
    buffer, count, at = _refilled(buffer, count, at)
    literals, distances, orders = 257 + (buffer & 31), 1 + (buffer >> 5 & 31), 4 + (buffer >> 10 & 15)
    buffer, count = shift_right(buffer, 14), count - 14
    if literals > 286 or distances > 30:
        return buffer, count, at, np.int64(0), distances
    clear_bytes(lengths, 19)
    for k in range(orders):
        if count < 3:
            buffer, count, at = _refilled(buffer, count, at)
        store_u8(lengths + _ORDER[k], np.uint8(buffer & 7))
        buffer, count = shift_right(buffer, 3), count - 3
    if _build(work, lengths, 19, work + _ORDER_TABLE, _ORDER_BITS, 2) != 0:
        return buffer, count, at, np.int64(0), distances
    done, total, last = np.int64(0), literals + distances, np.int64(0)
    while done < total:
        buffer, count, at = _refilled(buffer, count, at)
        if at > stop + 16:
            return buffer, count, at, np.int64(0), distances
        entry = np.int64(load_i32(work + _ORDER_TABLE + 4 * (buffer & 127)))
        bits, symbol = entry & 255, entry >> 16 & 31
        buffer, count = shift_right(buffer, bits), count - bits
        times, value = np.int64(1), symbol
        if symbol == 16:
            if done == 0:
                return buffer, count, at, np.int64(0), distances
            times, value = 3 + (buffer & 3), last
            buffer, count = shift_right(buffer, 2), count - 2
        elif symbol == 17:
            times, value = 3 + (buffer & 7), np.int64(0)
            buffer, count = shift_right(buffer, 3), count - 3
        elif symbol == 18:
            times, value = 11 + (buffer & 127), np.int64(0)
            buffer, count = shift_right(buffer, 7), count - 7
        if done + times > total:
            return buffer, count, at, np.int64(0), distances
        for j in range(times):
            store_u8(lengths + done + j, np.uint8(value))
        done, last = done + times, value
    if load_u8(lengths + 256) == 0:
        return buffer, count, at, np.int64(0), distances
    return buffer, count, at, literals, distances


@inlined
def _copy_match(out, distance, length):
    """Copy `length` bytes from `distance` bytes before `out`. Up to 15 more bytes are written."""
    end = out + length
    if distance < 8:  # repeat the pattern until it is as long as a word
        for k in range(16):
            store_u8(out + k, load_u8(out + k - distance))
        if length <= 16:
            return end
        out += 16
        distance *= (7 + distance) // distance
    while out < end:
        copy_bytes(out, out - distance, 8)
        out += 8
    return end


@inlined
def _symbols(buffer, count, at, stop, work, start, out, limit):
    """Decode the symbols of a block: (buffer, count, at, out). `out` is 0 if the data is damaged."""
    literals, distances = work + _LITERAL_TABLE, work + _DISTANCE_TABLE
    low, near = np.int64((1 << _LITERAL_BITS) - 1), np.int64((1 << _DISTANCE_BITS) - 1)
    while True:
        buffer, count, at = _refilled(buffer, count, at)
        if out > limit or at > stop + 16:
            return buffer, count, at, np.int64(0)
        entry = np.int64(load_i32(literals + 4 * (buffer & low)))
        if entry < 0:  # 33 bits at most for three entries
            buffer, count = shift_right(buffer, entry), count - (entry & 63)
            out = _take_literals(entry, out)
            entry = np.int64(load_i32(literals + 4 * (buffer & low)))
            if entry < 0:
                buffer, count = shift_right(buffer, entry), count - (entry & 63)
                out = _take_literals(entry, out)
                entry = np.int64(load_i32(literals + 4 * (buffer & low)))
                if entry < 0:
                    buffer, count = shift_right(buffer, entry), count - (entry & 63)
                    out = _take_literals(entry, out)
                    continue
            if entry & (_END | _DEEPER) or count < 48:
                continue
        if entry & _DEEPER:
            mask = (np.int64(1) << (entry >> 24 & 15)) - 1
            entry = np.int64(load_i32(literals + 4 * ((entry >> 8 & 0xFFFF) + (shift_right(buffer, _LITERAL_BITS) & mask))))
            if entry < 0:
                buffer, count = shift_right(buffer, entry), count - (entry & 63)
                out = _take_literals(entry, out)
                continue
        if entry & _END:
            return shift_right(buffer, entry), count - (entry & 63), at, out
        if entry >> 16 == 0:
            return buffer, count, at, np.int64(0)
        bits = entry >> 8 & 15
        buffer, count = shift_right(buffer, entry), count - (entry & 63)
        length = (entry >> 16) + (buffer & ((np.int64(1) << bits) - 1))
        buffer, count = shift_right(buffer, bits), count - bits
        entry = np.int64(load_i32(distances + 4 * (buffer & near)))
        if entry & _DEEPER:
            mask = (np.int64(1) << (entry >> 24 & 15)) - 1
            entry = np.int64(load_i32(distances + 4 * ((entry >> 8 & 0xFFFF) + (shift_right(buffer, _DISTANCE_BITS) & mask))))
        if entry >> 12 == 0:
            return buffer, count, at, np.int64(0)
        bits = entry >> 8 & 15
        buffer, count = shift_right(buffer, entry), count - (entry & 63)
        distance = (entry >> 12) + (buffer & ((np.int64(1) << bits) - 1))
        buffer, count = shift_right(buffer, bits), count - bits
        if distance > out - start:
            return buffer, count, at, np.int64(0)
        out = _copy_match(out, distance, length)


@inlined
def _stored(buffer, count, at, stop, out, limit):
    """Copy a block that is not compressed: (at, out). `out` is 0 if the data is damaged."""
    at -= count >> 3  # return the whole bytes of the buffer
    if at + 4 > stop:
        return at, np.int64(0)
    length = np.int64(load_u8(at)) | np.int64(load_u8(at + 1)) << 8
    inverse = np.int64(load_u8(at + 2)) | np.int64(load_u8(at + 3)) << 8
    at += 4
    if length != inverse ^ 0xFFFF or length > stop - at or length > limit - out:
        return at, np.int64(0)
    copy_bytes(out, at, length)
    return at + length, out + length


@inlined
def _adler(source, size):
    """The Adler-32 checksum, as in RFC 1950."""
    one, other, done = np.int64(1), np.int64(0), np.int64(0)
    while done < size:
        part = min(np.int64(4096), size - done)
        data = view_u8(source + done, part)
        total, weighted = np.int64(0), np.int64(0)
        for k in range(part):
            value = np.int64(data[k])
            total += value
            weighted += (part - k) * value
        other = (other + part * one + weighted) % 65521
        one = (one + total) % 65521
        done += part
    return other << 16 | one


@inlined
def inflate(source, size, target, wanted, work):
    """Inflate a zlib stream of `size` bytes (PADDING zeros follow) to exactly `wanted` bytes (room for SLACK more). Returns a status.

    `work` has room for WORK_BYTES.
    """
    stop, limit = source + size, target + wanted
    if size < 6 or load_u8(source) & 15 != 8 or load_u8(source) >> 4 > 7 or load_u8(source + 1) & 32 != 0:
        return BROKEN
    if (np.int64(load_u8(source)) << 8 | np.int64(load_u8(source + 1))) % 31 != 0:
        return BROKEN
    buffer, count, at, out, last = np.int64(0), np.int64(0), source + 2, target, np.int64(0)
    while last == 0:
        buffer, count, at = _refilled(buffer, count, at)
        last, kind = buffer & 1, buffer >> 1 & 3
        buffer, count = shift_right(buffer, 3), count - 3
        if kind == 0:
            at, out = _stored(buffer, count, at, stop, out, limit)
            buffer, count = np.int64(0), np.int64(0)
        elif kind == 3:
            return BROKEN
        else:
            literals, distances = np.int64(_LITERALS), np.int64(_DISTANCES)
            if kind == 1:
                _fixed_lengths(work + _LENGTHS)
            else:
                buffer, count, at, literals, distances = _read_lengths(buffer, count, at, stop, work)
                if literals == 0:
                    return BROKEN
            if _build(work, work + _LENGTHS, literals, work + _LITERAL_TABLE, _LITERAL_BITS, 0) != 0:
                return BROKEN
            _pair_literals(work + _LITERAL_TABLE)
            if _build(work, work + _LENGTHS + literals, distances, work + _DISTANCE_TABLE, _DISTANCE_BITS, 1) != 0:
                return BROKEN
            buffer, count, at, out = _symbols(buffer, count, at, stop, work, target, out, limit)
        if out == 0 or at - (count >> 3) > stop:
            return BROKEN
    at -= count >> 3
    if out != limit or at + 4 > stop:
        return BROKEN
    return 0 if shift_right(load_big_endian_64(at), 32) == _adler(target, wanted) else BROKEN
