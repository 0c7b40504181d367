"""NumPy files without the interpreter: headers, then the elements, through any strides."""

from __future__ import annotations

import numpy as np
from numba import types

from ..compiled.intrinsics import copy_bytes, load_i32, load_i64, load_u8, store_i64, store_u8
from ..compiled.step import compiled, inlined, step
from .record_kernels import open_file, read_at

_close = types.ExternalFunction("close", types.int32(types.int32))
_lseek = types.ExternalFunction("lseek", types.int64(types.int32, types.int64, types.int32))
_advise = types.ExternalFunction("posix_fadvise", types.int32(types.int32, types.int64, types.int64, types.int32))
_errno = types.ExternalFunction("__errno_location", types.int64())

_SEEK_END, _WILL_NEED = 2, 3

NOT_NUMPY, BAD_HEADER, STRUCTURED, TOO_LONG = (1 << 20) + 1, (1 << 20) + 2, (1 << 20) + 3, (1 << 20) + 4
"""Statuses of :func:`open_array`."""

DIMENSIONS = 32
HEADER_FIELDS = 6 + DIMENSIONS
"""Per file: whether the row is filled, type (byte order, kind, size as bytes of a number), Fortran order, dimensions, offset of the data,
size of the file; the shape."""

_FIRST_READ = 4096
_LONGEST = 1 << 16
SCRATCH = _LONGEST + 2 * _FIRST_READ


@inlined
def _blank(at, end):
    while at < end and (load_u8(at) == 32 or 9 <= load_u8(at) <= 13):
        at += 1
    return at


@inlined
def _quoted(at, end):
    """(start, length, address behind it) of a string in quotes; the length is -1 if there is none."""
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
    """The element type: [<>|=] letter digits."""
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
        if digit < 48 or digit > 57 or size > 99:
            return 0
        size = size * 10 + (digit - 48)
    store_i64(row + 8, order << 16 | np.int64(load_u8(start)) << 8 | size)
    return behind


@inlined
def _flag(at, end, row):
    """True or False."""
    if end - at >= 4 and load_i32(at) == 0x65757254:
        store_i64(row + 16, 1)
        return at + 4
    if end - at >= 5 and load_i32(at) == 0x736C6146 and load_u8(at + 4) == 101:
        store_i64(row + 16, 0)
        return at + 5
    return 0


@inlined
def _shape(at, end, row):
    """A tuple of whole numbers, as Python 2 and 3 write them."""
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
        store_i64(row + 48 + 8 * count, value)
        count += 1
        at = _blank(at, end)
        if at < end and load_u8(at) == 44:
            at = _blank(at + 1, end)
        elif at >= end or load_u8(at) != 41:
            return 0
    store_i64(row + 24, count)
    return at + 1 if at < end else 0


@inlined
def _dictionary(at, end, row):
    """The header's text, a Python dictionary of three entries; a status."""
    at = _blank(at, end)
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
    return 0 if at < end and seen == 7 else BAD_HEADER


@inlined
def _header(fd, size, buffer, row):
    if size < 10:
        return NOT_NUMPY
    have = min(size, _FIRST_READ)
    code = read_at(fd, 0, _FIRST_READ, have, buffer)
    if code != 0:
        return code
    # \x93NUMPY
    if load_i32(buffer) != 0x4D554E93 or load_u8(buffer + 4) != 80 or load_u8(buffer + 5) != 89:
        return NOT_NUMPY
    version = load_u8(buffer + 6)
    start = 10
    length = load_i32(buffer + 8) & 0xFFFF
    if version == 2 or version == 3:
        if size < 12:
            return NOT_NUMPY
        length = load_i32(buffer + 8) & 0xFFFFFFFF
        start = 12
    elif version != 1:
        return NOT_NUMPY
    if length > size - start:
        return BAD_HEADER
    if start + length > _LONGEST:
        return TOO_LONG
    if start + length > have:
        code = read_at(fd, 0, (start + length + _FIRST_READ - 1) // _FIRST_READ * _FIRST_READ, start + length, buffer)
        if code != 0:
            return code
    code = _dictionary(buffer + start, buffer + start + length, row)
    if code == 0:
        store_i64(row, 1)
        store_i64(row + 32, start + length)
        store_i64(row + 40, size)
    return code


@step
def open_array(context, sample, thread):
    """Open each file and read its header, unless its row is filled.

    Context: address of the paths, their starts, descriptors (out, -1 when not open), rows (int64[samples, HEADER_FIELDS]), how many files
    may stay open, whether past the system's cache, read-ahead flag, offset of the scratch.
    """
    fd = open_file(load_i64(context) + load_i64(load_i64(context + 8) + 8 * sample), load_i64(context + 40))
    if fd < 0:
        return -fd
    if load_i64(context + 48) != 0:
        _advise(fd, 0, 0, _WILL_NEED)
    row = load_i64(context + 24) + 8 * HEADER_FIELDS * sample
    code = np.int64(0)
    if load_i64(row) == 0:
        size = _lseek(fd, 0, _SEEK_END)
        buffer = (load_i64(thread) + load_i64(context + 56) + _FIRST_READ - 1) & -_FIRST_READ
        code = np.int64(load_i32(_errno())) if size < 0 else np.int64(_header(fd, size, buffer, row))
    if code == 0 and sample < load_i64(context + 32):
        store_i64(load_i64(context + 16) + 8 * sample, fd)
    else:
        _close(fd)
    return code


@inlined
def _fill(target, size, width, value):
    """`size` bytes of elements of `width` bytes whose bits are those of `value`."""
    for at in range(target, target + size, width):
        for k in range(width):
            store_u8(at + k, (value >> (8 * k)) & 0xFF)


@inlined
def _copy_row(target, source, count, width, target_step, source_step):
    if target_step == width and source_step == width:
        copy_bytes(target, source, count * width)
        return
    if width == 4:
        for k in range(count):
            copy_bytes(target + k * target_step, source + k * source_step, 4)
    elif width == 8:
        for k in range(count):
            copy_bytes(target + k * target_step, source + k * source_step, 8)
    elif width == 2:
        for k in range(count):
            copy_bytes(target + k * target_step, source + k * source_step, 2)
    else:
        for k in range(count):
            store_u8(target + k * target_step, load_u8(source + k * source_step))


@inlined
def _copy(target, source, dimensions, width, geometry):
    """Elements through strides; `geometry` has extents, then source strides, then target strides."""
    last = dimensions - 1
    rows = 1
    for k in range(last):
        rows *= load_i64(geometry + 8 * k)
    for row in range(rows):
        rest, to, of = row, target, source
        for j in range(last):
            k = last - 1 - j
            extent = load_i64(geometry + 8 * k)
            index = rest % extent
            rest = rest // extent
            of += index * load_i64(geometry + 8 * (dimensions + k))
            to += index * load_i64(geometry + 8 * (2 * dimensions + k))
        _copy_row(to, of, load_i64(geometry + 8 * last), width, load_i64(geometry + 8 * (3 * dimensions - 1)),
                  load_i64(geometry + 8 * (2 * dimensions - 1)))  # fmt: skip


@step
def read_array(context, sample, thread):
    """Read each file's elements, and close it.

    Context: address of the paths, their starts, descriptors; int64[samples] each: offsets in the file, bytes to read, bytes needed at
    least, where to, where the elements are then (0: in place), output addresses, output bytes to fill first, target offsets; geometry
    (int64[samples, 3, dimensions]), dimensions, element width, bits to fill with, whether past the system's cache.
    """
    at = 8 * sample
    slot = load_i64(context + 16) + at
    fd = load_i64(slot)
    if fd < 0:
        fd = open_file(load_i64(context) + load_i64(load_i64(context + 8) + at), load_i64(context + 120))
        if fd < 0:
            return -fd
    code = read_at(
        fd, load_i64(load_i64(context + 24) + at), load_i64(load_i64(context + 32) + at), load_i64(load_i64(context + 40) + at),
        load_i64(load_i64(context + 48) + at),
    )  # fmt: skip
    store_i64(slot, -1)
    _close(fd)
    if code != 0:
        return code
    target = load_i64(load_i64(context + 64) + at)
    filled = load_i64(load_i64(context + 72) + at)
    dimensions, width = load_i64(context + 96), load_i64(context + 104)
    if filled > 0:
        _fill(target, filled, width, load_i64(context + 112))
    source = load_i64(load_i64(context + 56) + at)
    if source != 0 and load_i64(load_i64(context + 40) + at) > 0:
        geometry = load_i64(context + 88) + 24 * dimensions * sample
        _copy(target + load_i64(load_i64(context + 80) + at), source, dimensions, width, geometry)
    return 0


@compiled(2)
def close_all(descriptors, count):
    """Close those of `count` descriptors that are open (not -1), also after an error."""
    for k in range(count):
        fd = load_i64(descriptors + 8 * k)
        if fd >= 0:
            _close(fd)
    return 0
