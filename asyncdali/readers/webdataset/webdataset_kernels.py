"""Scans the headers of a tar archive: v7, ustar, GNU long names, pax attributes."""

from __future__ import annotations

import numpy as np

from ...compiled.intrinsics import address, copy_bytes, load_i64, load_u8, local_array, store_i64, store_u8
from ...compiled.step import compiled, inlined
from ..containers.record_kernels import read_at
from .webdataset_tables import MEMBER, PAX

BAD_SUM, BAD_SIZE, TRUNCATED, BAD_PAX, SPARSE = (1 << 20) + 1, (1 << 20) + 2, (1 << 20) + 3, (1 << 20) + 4, (1 << 20) + 5
"""Statuses of :func:`scan_tar`."""

BLOCK = 512
NAME_BYTES = 256
"""A short name: prefix (155), slash, name (100)."""
member, pax = MEMBER.at, PAX.word
ENDED, ENDED_BEFORE_OTHER_BYTES = -1, -2
"""Where :func:`scan_tar` stops at the end of the archive, without or with other bytes behind it."""
_WINDOW = 1 << 16
"""So many bytes of pax attributes are in memory at a time. Values may be longer: macOS stores resource forks of files there."""
_header, _body, _attributes = local_array(np.uint8, BLOCK), local_array(np.uint8, _WINDOW), local_array(np.int64, pax.words)
_HEAD = 64
"""Length, key and value of an attribute that matters have fewer bytes; a path may be longer, but only its place is taken."""
_LINKPATH, _GNU_SPARSE = int.from_bytes(b"linkpath", "little"), int.from_bytes(b"GNU.spar", "little")
_LINK_NAME, _LINK_BYTES, _MAGIC, _USTAR = 157, 100, 257, int.from_bytes(b"ustar", "little")


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
    total, signed = 8 * 32, 8 * 32  # old writers add signed characters
    for k in range(BLOCK):
        if k < 148 or k >= 156:
            byte = load_u8(block + k)
            total += byte
            signed += byte - 256 if byte > 127 else byte
    stored = _octal(block + 148, 8)
    return stored in (total, signed)


@inlined
def _is_ustar(block):
    """Whether a header says "ustar", as all but the oldest do."""
    return load_i64(block + _MAGIC) & 0xFFFFFFFFFF == _USTAR


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
def _size(at, count):
    """The digits of an attribute's value; -1 if it is no number."""
    size = 0
    for i in range(count):
        digit = load_u8(at + i)
        if digit < 48 or digit > 57 or size >= 1 << 58:
            return -1
        size = size * 10 + (digit - 48)
    return size


@inlined
def _pax(descriptor, start, length, body, out):
    """Parse attributes "length key=value" at `start` of the archive into the PAX record `out`. Returns a status."""
    at, first, last = 0, 0, 0  # `body` has the bytes from `first` to `last`
    while at < length:
        if at + _HEAD > last and last < length:
            first, last = at, min(at + _WINDOW, length)
            code = read_at(descriptor, start + first, last - first, last - first, body)
            if code != 0:
                return code
        here, seen = body + (at - first), last - at
        if load_u8(here) == 0:
            break
        number, k = 0, 0
        while k < seen and 48 <= load_u8(here + k) <= 57 and number < 1 << 40:
            number = number * 10 + (load_u8(here + k) - 48)
            k += 1
        if k == 0 or k >= seen or load_u8(here + k) != 32 or number > length - at or number < k + 3:
            return BAD_PAX
        k += 1
        rest = min(number, seen) - k
        if rest > 6 and _is_key(here + k, 112, 97, 116, 104):
            out[pax.path_offset], out[pax.path_length] = at + k + 5, number - 1 - (k + 5)
        elif rest > 6 and _is_key(here + k, 115, 105, 122, 101):
            if number > seen:
                return BAD_PAX
            out[pax.data_length] = _size(here + k + 5, number - 1 - (k + 5))
            if out[pax.data_length] < 0:
                return BAD_PAX
        elif rest > 10 and load_i64(here + k) == _LINKPATH and load_u8(here + k + 8) == 61:
            out[pax.link_offset], out[pax.link_length] = at + k + 9, number - 1 - (k + 9)
        elif rest > 8 and load_i64(here + k) == _GNU_SPARSE:
            out[pax.sparse] = 1
        at += number
    return 0


@inlined
def _clear(found):
    """No attributes."""
    for k in range(pax.words):
        found[k] = 0
    found[pax.data_length] = -1


@compiled(2)
def is_header(descriptor, at):
    """Whether a block is the header of a member: 1, or 0."""
    block = address(_header())
    if read_at(descriptor, at, BLOCK, BLOCK, block) != 0:
        return 0
    return 1 if _sum_matches(block) else 0


@compiled(6)
def scan_tar(descriptor, start, size, members, names, capacity):
    """Scan from the header at `start` to the end of the archive, or until `capacity` members are found.

    Blocks of zeros end an archive, but another archive may follow (``cat a.tar b.tar``), which is scanned, too.

    Returns the number of members, or minus a status. Writes a MEMBER for each to `members`, then the offset where the scan stopped (or
    ENDED, or ENDED_BEFORE_OTHER_BYTES), and short names to the rows of `names`.
    """
    block, body, found = address(_header()), address(_body()), _attributes()
    _clear(found)
    long_at, long_length, link_at, link_length = 0, 0, 0, 0
    count, at, code = 0, start, 0
    after_zeros = False
    resume = start
    while count < capacity:
        if at >= size:
            resume = ENDED
            break
        if after_zeros and at + BLOCK > size:
            resume = ENDED_BEFORE_OTHER_BYTES
            break
        code = read_at(descriptor, at, BLOCK, BLOCK, block)
        if code != 0:
            code = TRUNCATED
            break
        if _is_zero(block):
            after_zeros = True
            long_length, link_length = 0, 0
            _clear(found)
            at += BLOCK
            continue
        if not _sum_matches(block):
            if after_zeros and not _is_ustar(block):
                resume = ENDED_BEFORE_OTHER_BYTES
            else:
                code = BAD_SUM
            break
        after_zeros = False
        length = _octal(block + 124, 12)
        kind = np.int64(load_u8(block + 156))
        if kind not in (120, 88, 103) and found[pax.data_length] >= 0:
            length = found[pax.data_length]
        if length < 0:
            code = BAD_SIZE
            break
        header_at, data = at, at + BLOCK
        if length > size - data:
            code = TRUNCATED
            break
        at = data + ((length + BLOCK - 1) // BLOCK) * BLOCK
        if kind == 76:  # GNU: the next member's name
            long_at, long_length = data, length
        elif kind == 75:  # GNU: the target of the next member, a link
            link_at, link_length = data, length
        elif kind in (120, 88):  # pax (and Solaris): the next member's attributes
            _clear(found)
            code = _pax(descriptor, data, length, body, found)
            if code != 0:
                break
            if found[pax.path_length] > 0:
                long_at, long_length = data + found[pax.path_offset], found[pax.path_length]
            if found[pax.link_length] > 0:
                link_at, link_length = data + found[pax.link_offset], found[pax.link_length]
        elif kind == 83 or (found[pax.sparse] != 0 and kind != 103):
            at, code = header_at, SPARSE
            break
        elif kind != 103:
            row = members + member.size * count
            store_i64(row + member.data_offset, data)
            store_i64(row + member.data_length, length)
            store_i64(row + member.kind, kind)
            store_i64(row + member.name_offset, long_at)
            store_i64(row + member.name_length, long_length)
            store_i64(row + member.link_offset, link_at if link_length > 0 else header_at + _LINK_NAME)
            store_i64(row + member.link_length, link_length if link_length > 0 else _LINK_BYTES)
            _short_name(block, names + NAME_BYTES * count)
            count += 1
            long_length, link_length = 0, 0
            _clear(found)
            resume = at
    store_i64(members + member.size * capacity, at if code != 0 else resume)
    return -code if code != 0 else count
