"""Reads NumPy files without the interpreter: headers, then the elements, through any strides."""

from __future__ import annotations

import numpy as np

from ...codecs.npy_header_kernels import LEAST, NOT_NUMPY, TOO_LONG, dictionary, preamble
from ...codecs.npy_header_tables import NPY_HEADER
from ...compiled import kinds
from ...compiled.intrinsics import copy_bytes, load_i32, load_i64, load_u8, store_i64, store_u8
from ...compiled.job_tables import THREAD
from ...compiled.step import compiled, inlined, step
from ..containers.record_kernels import open_file, read_at
from .npy_tables import OPEN_ARRAYS, READ_ARRAYS

_close = kinds.ExternalFunction("close", kinds.int32(kinds.int32))
_lseek = kinds.ExternalFunction("lseek", kinds.int64(kinds.int32, kinds.int64, kinds.int32))
_advise = kinds.ExternalFunction("posix_fadvise", kinds.int32(kinds.int32, kinds.int64, kinds.int64, kinds.int32))
_errno = kinds.ExternalFunction("__errno_location", kinds.int64())

opening, reading, header, record = OPEN_ARRAYS.at, READ_ARRAYS.at, NPY_HEADER.at, THREAD.at

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
    end = load_i64(row + header.data)
    if end > _LONGEST:
        return TOO_LONG
    if end > have:
        code = read_at(fd, 0, (end + _FIRST_READ - 1) // _FIRST_READ * _FIRST_READ, end, buffer)
        if code != 0:
            return code
    return dictionary(buffer, end, row)


@step
def open_array(context, sample, thread):
    """Open each file and read its header, unless the header is known."""
    path = load_i64(context + opening.paths) + load_i64(load_i64(context + opening.starts) + 8 * sample)
    fd = open_file(path, load_i64(context + opening.direct))
    if fd < 0:
        return -fd
    if load_i64(context + opening.read_ahead) != 0:
        _advise(fd, 0, 0, _WILL_NEED)
    row = load_i64(context + opening.headers) + header.size * sample
    code = np.int64(0)
    if load_i64(row + header.status) == 0:
        size = _lseek(fd, 0, _SEEK_END)
        buffer = (load_i64(thread + record.scratch) + load_i64(context + opening.scratch) + _FIRST_READ - 1) & -_FIRST_READ
        code = np.int64(load_i32(_errno())) if size < 0 else np.int64(_header(fd, size, buffer, row))
    if code == 0 and sample < load_i64(context + opening.may_stay_open):
        store_i64(load_i64(context + opening.descriptors) + 8 * sample, fd)
    else:
        _close(fd)
    return code


_ABSURD = 2.0**60


@compiled(5, brief=True)
def survey(headers, count, shapes, offsets, sizes):
    """Write shapes (int64[count, dimensions of the first array]), and places and sizes of the data in bytes (int64[count] each).

    Returns 1 if all arrays have one type and number of dimensions, are in C order, and lie in their files. Else the results are invalid.
    """
    kind, dimensions = load_i64(headers + header.type), load_i64(headers + header.dimensions)
    width = kind & 0xFF
    for i in range(count):
        row = headers + header.size * i
        if load_i64(row + header.type) != kind or load_i64(row + header.dimensions) != dimensions:
            return 0
        if dimensions > 1 and load_i64(row + header.fortran) != 0:
            return 0
        size, span = width, np.float64(width)
        for k in range(dimensions):
            extent = load_i64(row + header.shape_0 + 8 * k)
            store_i64(shapes + 8 * (dimensions * i + k), extent)
            span *= np.float64(max(extent, 1))
            if span > _ABSURD:
                return 0
            size *= extent
        data = load_i64(row + header.data)
        if size > load_i64(row + header.file_bytes) - data:
            return 0
        store_i64(offsets + 8 * i, data)
        store_i64(sizes + 8 * i, size)
    return 1


@inlined
def _fill(target, size, width, value):
    """Fill `size` bytes with elements of `width` bytes whose bits are those of `value`."""
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
    """Copy elements through strides. `geometry` has extents, then source strides, then target strides."""
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
    """Read each file's elements, and close it."""
    at = 8 * sample
    slot = load_i64(context + reading.descriptors) + at
    fd = load_i64(slot)
    if fd < 0:
        path = load_i64(context + reading.paths) + load_i64(load_i64(context + reading.starts) + at)
        fd = open_file(path, load_i64(context + reading.direct))
        if fd < 0:
            return -fd
    needed = load_i64(load_i64(context + reading.needed) + at)
    code = read_at(
        fd, load_i64(load_i64(context + reading.offsets) + at), load_i64(load_i64(context + reading.lengths) + at), needed,
        load_i64(load_i64(context + reading.addresses) + at),
    )  # fmt: skip
    store_i64(slot, -1)
    _close(fd)
    if code != 0:
        return code
    target = load_i64(load_i64(context + reading.outputs) + at)
    filled = load_i64(load_i64(context + reading.filled) + at)
    dimensions, width = load_i64(context + reading.dimensions), load_i64(context + reading.width)
    if filled > 0:
        _fill(target, filled, width, load_i64(context + reading.fill))
    source = load_i64(load_i64(context + reading.elements) + at)
    if source != 0 and needed > 0:
        geometry = load_i64(context + reading.geometry) + 24 * dimensions * sample
        _copy(target + load_i64(load_i64(context + reading.shifts) + at), source, dimensions, width, geometry)
    return 0
