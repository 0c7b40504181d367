"""NumPy files without the interpreter: headers, then the elements, through any strides."""

from __future__ import annotations

import numpy as np
from numba import types

from ..compiled.intrinsics import copy_bytes, load_i32, load_i64, load_u8, store_i64, store_u8
from ..compiled.step import compiled, inlined, step
from ..operators.decode.npy_header_kernels import HEADER_FIELDS, LEAST, NOT_NUMPY, TOO_LONG, dictionary, preamble
from .record_kernels import open_file, read_at

_close = types.ExternalFunction("close", types.int32(types.int32))
_lseek = types.ExternalFunction("lseek", types.int64(types.int32, types.int64, types.int32))
_advise = types.ExternalFunction("posix_fadvise", types.int32(types.int32, types.int64, types.int64, types.int32))
_errno = types.ExternalFunction("__errno_location", types.int64())

_SEEK_END, _WILL_NEED = 2, 3

_FIRST_READ = 4096
_LONGEST = 1 << 16
SCRATCH = _LONGEST + 2 * _FIRST_READ


@inlined
def _header(fd, size, buffer, row):
    if size < LEAST:
        return NOT_NUMPY
    have = min(size, _FIRST_READ)
    code = read_at(fd, 0, _FIRST_READ, have, buffer)
    if code != 0:
        return code
    code = preamble(buffer, size, row)
    if code != 0:
        return code
    end = load_i64(row + 32)
    if end > _LONGEST:
        return TOO_LONG
    if end > have:
        code = read_at(fd, 0, (end + _FIRST_READ - 1) // _FIRST_READ * _FIRST_READ, end, buffer)
        if code != 0:
            return code
    return dictionary(buffer, end, row)


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
