"""Headers of NumPy files, parsed without the interpreter: files in memory here, files on disk in the reader's kernels."""

from __future__ import annotations

import numpy as np

from ..compiled.intrinsics import load_i32, load_i64, load_u8, store_i64
from ..compiled.step import compiled, inlined
from .npy_header_tables import DIMENSIONS, NPY_HEADER

NOT_NUMPY, BAD_HEADER, STRUCTURED, TOO_LONG = (1 << 20) + 1, (1 << 20) + 2, (1 << 20) + 3, (1 << 20) + 4
"""Status codes."""

header = NPY_HEADER.at

LEAST = 10
"""Least bytes of a file."""


@inlined
def _blank(at, end):
    while at < end and (load_u8(at) == 32 or 9 <= load_u8(at) <= 13):
        at += 1
    return at


@inlined
def _quoted(at, end):
    """(start, length, address behind it) of a quoted string; the length is -1 if there is none."""
    if at >= end or (load_u8(at) != 39 and load_u8(at) != 34):
        return at, -1, at
    quote = load_u8(at)
    start = at + 1
    at = start
    while at < end and load_u8(at) != quote:
        at += 1
    return (start, at - start, at + 1) if at < end else (start, -1, at)


@inlined
def _type(at, end, row):
    """Parse the element type: [<>|=] letter digits; times have a unit in brackets behind."""
    start, length, behind = _quoted(at, end)
    if length < 2 or length > 16:
        return 0
    order = np.int64(124)
    if load_u8(start) in (60, 62, 124, 61):
        order = np.int64(load_u8(start))
        start, length = start + 1, length - 1
    size = np.int64(0)
    for k in range(1, length):
        digit = load_u8(start + k)
        if digit == 91 and load_u8(start) in (77, 109):
            break
        if digit < 48 or digit > 57 or size > 99:
            return 0
        size = size * 10 + (digit - 48)
    store_i64(row + header.type, order << 16 | np.int64(load_u8(start)) << 8 | size)
    return behind


@inlined
def _flag(at, end, row):
    """Parse True or False."""
    if end - at >= 4 and load_i32(at) == 0x65757254:
        store_i64(row + header.fortran, 1)
        return at + 4
    if end - at >= 5 and load_i32(at) == 0x736C6146 and load_u8(at + 4) == 101:
        store_i64(row + header.fortran, 0)
        return at + 5
    return 0


@inlined
def _shape(at, end, row):
    """Parse a tuple of integers, as Python 2 and 3 write them."""
    if at >= end or load_u8(at) != 40:
        return 0
    count = 0
    at = _blank(at + 1, end)
    while at < end and load_u8(at) != 41:
        if count >= DIMENSIONS:
            return 0
        value, first = np.int64(0), at
        while at < end and 48 <= load_u8(at) <= 57:
            if value >= 1 << 58:
                return 0
            value = value * 10 + (load_u8(at) - 48)
            at += 1
        if at == first:
            return 0
        if at < end and load_u8(at) == 76:
            at += 1
        store_i64(row + header.shape_0 + 8 * count, value)
        count += 1
        at = _blank(at, end)
        if at < end and load_u8(at) == 44:
            at = _blank(at + 1, end)
        elif at >= end or load_u8(at) != 41:
            return 0
    store_i64(row + header.dimensions, count)
    return at + 1 if at < end else 0


@inlined
def _preamble_bytes(data):
    return 10 if load_u8(data + 6) == 1 else 12


@inlined
def preamble(data, size, row):
    """Parse the preamble of a file of `size` bytes, at least LEAST. It gives the start of the data. Returns a status."""
    # \x93NUMPY
    if load_i32(data) != 0x4D554E93 or load_u8(data + 4) != 80 or load_u8(data + 5) != 89:
        return NOT_NUMPY
    version = load_u8(data + 6)
    start = _preamble_bytes(data)
    if version < 1 or version > 3 or size < start:
        return NOT_NUMPY
    length = load_i32(data + 8) & (0xFFFF if version == 1 else 0xFFFFFFFF)
    if length > size - start:
        return BAD_HEADER
    store_i64(row + header.data, start + length)
    store_i64(row + header.file_bytes, size)
    return 0


@inlined
def dictionary(data, length, row):
    """Parse the text of a header of `length` bytes: a Python dictionary of three entries, behind the preamble. Returns a status."""
    end = data + length
    at = _blank(data + _preamble_bytes(data), end)
    if at >= end or load_u8(at) != 123:
        return BAD_HEADER
    at = _blank(at + 1, end)
    seen = 0
    while at < end and load_u8(at) != 125:
        key, length, at = _quoted(at, end)
        at = _blank(at, end)
        if length < 0 or at >= end or load_u8(at) != 58:
            return BAD_HEADER
        at = _blank(at + 1, end)
        first = load_u8(key) if length > 0 else 0
        if length == 5 and first == 100:  # descr
            if at < end and load_u8(at) == 91:
                return STRUCTURED
            at = _type(at, end, row)
            seen |= 1
        elif length == 13 and first == 102:  # fortran_order
            at = _flag(at, end, row)
            seen |= 2
        elif length == 5 and first == 115:  # shape
            at = _shape(at, end, row)
            seen |= 4
        else:
            return BAD_HEADER
        if at == 0:
            return BAD_HEADER
        at = _blank(at, end)
        if at < end and load_u8(at) == 44:
            at = _blank(at + 1, end)
        elif at >= end or load_u8(at) != 125:
            return BAD_HEADER
    if at >= end or seen != 7:
        return BAD_HEADER
    store_i64(row + header.status, 1)
    return 0


@compiled(4)
def read_headers(addresses, sizes, rows, count):
    """Parse the headers of `count` files in memory (int64[count], int64[count], NPY_HEADER[count]). Returns how many are valid."""
    valid = 0
    for k in range(count):
        data, size, row = load_i64(addresses + 8 * k), load_i64(sizes + 8 * k), rows + header.size * k
        code = NOT_NUMPY
        if size >= LEAST:
            code = preamble(data, size, row)
            if code == 0:
                code = dictionary(data, load_i64(row + header.data), row)
        if code != 0:
            store_i64(row + header.status, code)
        else:
            valid += 1
    return valid
