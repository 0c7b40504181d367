"""Parses protocol buffer messages in place: field by field, with every length checked against the message's end."""

from __future__ import annotations

from ...compiled.intrinsics import load_u8
from ...compiled.step import inlined

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Wire types. Groups (3 and 4) are obsolete and count as damage."""


@inlined
def varint(at, end):
    """(value, address after it). The address is 0 if the number is malformed."""
    value = 0
    for k in range(10):
        if at >= end:
            return 0, 0
        byte = load_u8(at)
        at += 1
        if k < 9:
            value |= (byte & 0x7F) << (7 * k)
        else:
            value |= (byte & 1) << 63
        if byte < 0x80:
            return value, at
    return 0, 0


@inlined
def field(at, end):
    """The field at `at`: (number, wire type, value, length, address after it). The number is -1 if the field is malformed.

    `value` is the number itself for VARINT, otherwise the address of `length` bytes.
    """
    tag, at = varint(at, end)
    number, kind = (tag >> 3) & 0x1FFFFFFF, tag & 7
    if at == 0 or number == 0 or tag >> 32 != 0:
        return -1, 0, 0, 0, 0
    if kind == VARINT:
        value, at = varint(at, end)
        if at == 0:
            return -1, 0, 0, 0, 0
        return number, kind, value, 0, at
    length = 0
    if kind == BYTES:
        length, at = varint(at, end)
        if at == 0:
            return -1, 0, 0, 0, 0
    elif kind == FIXED64:
        length = 8
    elif kind == FIXED32:
        length = 4
    else:
        return -1, 0, 0, 0, 0
    if length < 0 or length > end - at:
        return -1, 0, 0, 0, 0
    return number, kind, at, length, at + length


@inlined
def count_varints(at, end):
    """How many numbers a packed list has; -1 if it is malformed."""
    count = 0
    pending = 0
    while at < end:
        byte = load_u8(at)
        at += 1
        pending += 1
        if pending > 10:
            return -1
        if byte < 0x80:
            count += 1
            pending = 0
    return count if pending == 0 else -1
