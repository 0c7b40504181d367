"""Scans the headers of a tar archive: ustar, GNU long names, pax attributes."""

from __future__ import annotations

import numpy as np

from ...compiled.intrinsics import copy_bytes, load_i64, load_u8, store_i64, store_u8
from ...compiled.step import compiled, inlined
from ..containers.record_kernels import read_at
from .tar_tables import MEMBER, PAX

BAD_SUM, BAD_SIZE, TRUNCATED, BAD_PAX = (1 << 20) + 1, (1 << 20) + 2, (1 << 20) + 3, (1 << 20) + 4
"""Statuses of :func:`scan_tar`."""

BLOCK = 512
NAME_BYTES = 256
"""A short name: prefix (155), slash, name (100)."""
member, pax = MEMBER.at, PAX.word
_LONGEST_PAX = 1 << 16


@inlined
def _is_zero(block):
    bits = 0
    for k in range(0, BLOCK, 8):
        bits |= load_i64(block + k)
    return bits == 0


@inlined
def _octal(at, count):
    """A number of a header: octal digits between blanks, or base 256 if the first bit is set; -1 if it is neither."""
    first = load_u8(at)
    value = 0
    if first >= 0x80:
        if first != 0x80:
            return -1
        for k in range(1, count):
            if value >= 1 << 54:
                return -1
            value = value << 8 | load_u8(at + k)
        return value
    k = 0
    while k < count and load_u8(at + k) == 32:
        k += 1
    while k < count and 48 <= load_u8(at + k) <= 55:
        value = value << 3 | (load_u8(at + k) - 48)
        k += 1
    return value if k == count or load_u8(at + k) == 0 or load_u8(at + k) == 32 else -1


@inlined
def _sum_matches(block):
    total = 8 * 32
    for k in range(BLOCK):
        if k < 148 or k >= 156:
            total += load_u8(block + k)
    return total == _octal(block + 148, 8)


@inlined
def _text_length(at, count):
    for k in range(count):
        if load_u8(at + k) == 0:
            return k
    return count


@inlined
def _short_name(block, out):
    """Write prefix/name, NUL-terminated if it is shorter than the row."""
    length = 0
    # Only the POSIX header ("ustar", NUL) has a prefix; in the GNU header ("ustar", blank) this field has times.
    if load_u8(block + 257) == 117 and load_u8(block + 262) == 0:
        length = _text_length(block + 345, 155)
        copy_bytes(out, block + 345, length)
        if length > 0:
            store_u8(out + length, 47)
            length += 1
    name = _text_length(block, 100)
    copy_bytes(out + length, block, name)
    if length + name < NAME_BYTES:
        store_u8(out + length + name, 0)


@inlined
def _is_key(at, a, b, c, d):
    """Whether the key of an attribute is these four letters."""
    return load_u8(at) == a and load_u8(at + 1) == b and load_u8(at + 2) == c and load_u8(at + 3) == d and load_u8(at + 4) == 61


@inlined
def _pax(body, length, out):
    """Parse attributes "length key=value" into the PAX record `out`; -1 if they are malformed."""
    at = 0
    while at < length and load_u8(body + at) != 0:
        number, k = 0, at
        while k < length and 48 <= load_u8(body + k) <= 57 and number < _LONGEST_PAX:
            number = number * 10 + (load_u8(body + k) - 48)
            k += 1
        end = at + number
        if k == at or k >= length or load_u8(body + k) != 32 or end > length or end < k + 3:
            return -1
        k += 1
        if end - k > 6 and _is_key(body + k, 112, 97, 116, 104):
            out[pax.path_offset], out[pax.path_length] = k + 5, end - 1 - (k + 5)
        elif end - k > 6 and _is_key(body + k, 115, 105, 122, 101):
            size = 0
            for i in range(k + 5, end - 1):
                digit = load_u8(body + i)
                if digit < 48 or digit > 57 or size >= 1 << 58:
                    return -1
                size = size * 10 + (digit - 48)
            out[pax.data_length] = size
        at = end
    return 0


@compiled(6)
def scan_tar(descriptor, start, size, members, names, capacity):
    """Scan from the header at `start` to the end of the archive, or until `capacity` members are found.

    Returns the number of members, or minus a status. Writes a MEMBER for each to `members`, then the offset where the scan stopped (-1: the
    archive has ended), and short names to the rows of `names`.
    """
    header = np.empty(BLOCK, np.uint8)
    block = header.ctypes.data
    body = np.empty(_LONGEST_PAX, np.uint8)
    found = np.zeros(pax.words, np.int64)
    found[pax.data_length] = -1
    long_at, long_length = 0, 0
    count, at, code = 0, start, 0
    resume = start
    while count < capacity:
        if at >= size:
            resume = -1
            break
        code = read_at(descriptor, at, BLOCK, BLOCK, block)
        if code != 0:
            code = TRUNCATED
            break
        if _is_zero(block):
            resume = -1
            break
        if not _sum_matches(block):
            code = BAD_SUM
            break
        length = _octal(block + 124, 12)
        kind = np.int64(load_u8(block + 156))
        if kind != 120 and kind != 103 and found[pax.data_length] >= 0:
            length = found[pax.data_length]
        if length < 0:
            code = BAD_SIZE
            break
        data = at + BLOCK
        if length > size - data:
            code = TRUNCATED
            break
        at = data + ((length + BLOCK - 1) // BLOCK) * BLOCK
        if kind == 76:  # GNU: the next member's name
            long_at, long_length = data, length
        elif kind == 120:  # pax: the next member's attributes
            if length > _LONGEST_PAX:
                code = BAD_PAX
                break
            code = read_at(descriptor, data, length, length, body.ctypes.data)
            if code != 0:
                break
            found[pax.path_offset], found[pax.path_length], found[pax.data_length] = 0, 0, -1
            if _pax(body.ctypes.data, length, found) < 0:
                code = BAD_PAX
                break
            if found[pax.path_length] > 0:
                long_at, long_length = data + found[pax.path_offset], found[pax.path_length]
        elif kind != 75 and kind != 103:
            row = members + member.size * count
            store_i64(row + member.data_offset, data)
            store_i64(row + member.data_length, length)
            store_i64(row + member.kind, kind)
            store_i64(row + member.name_offset, long_at)
            store_i64(row + member.name_length, long_length)
            _short_name(block, names + NAME_BYTES * count)
            count += 1
            long_at, long_length = 0, 0
            found[pax.data_length] = -1
            resume = at
    store_i64(members + member.size * capacity, at if code != 0 else resume)
    return -code if code != 0 else count
