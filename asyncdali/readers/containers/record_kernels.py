"""Reads records of container files without the interpreter."""

from __future__ import annotations

import numpy as np

from ...compiled import kinds
from ...compiled.intrinsics import address, copy_bytes, load_i32, load_i64, load_u8, local_array, store_i64, store_u8
from ...compiled.step import compiled, inlined, step
from .record_tables import ADVISE_RECORDS, COPY_PARTS, MAPPED_RECORDS, READ_RECORDS

_open = kinds.ExternalFunction("open", kinds.int32(kinds.int64, kinds.int32))
_close = kinds.ExternalFunction("close", kinds.int32(kinds.int32))
_pread = kinds.ExternalFunction("pread", kinds.int64(kinds.int32, kinds.int64, kinds.int64, kinds.int64))
_advise = kinds.ExternalFunction("posix_fadvise", kinds.int32(kinds.int32, kinds.int64, kinds.int64, kinds.int32))
_preadv2 = kinds.ExternalFunction("preadv2", kinds.int64(kinds.int32, kinds.int64, kinds.int32, kinds.int64, kinds.int32))
_madvise = kinds.ExternalFunction("madvise", kinds.int32(kinds.int64, kinds.int64, kinds.int32))
_errno = kinds.ExternalFunction("__errno_location", kinds.int64())

reading, mapped, copying, advising = READ_RECORDS.at, MAPPED_RECORDS.at, COPY_PARTS.at, ADVISE_RECORDS.at

_OPEN_FLAGS = 0o2000000 | 0o4000  # O_CLOEXEC | O_NONBLOCK: opening a pipe must not wait for its writer
_DIRECT = 0o40000
_INTERRUPTED, _INVALID = 4, 22
_WILL_NEED = 3
_NO_WAIT = 8
_POPULATE_READ = 22  # from Linux 5.14 on; older kernels refuse it
_PAGE = 4096
_iovec = local_array(np.int64, 2)
SHORT_READ = 1 << 20
"""Status: the file ended before the record."""


@inlined
def open_file(path, direct):
    """A descriptor, or minus an errno. File systems without O_DIRECT are read as usual."""
    fd = np.int64(-1)
    if direct != 0:
        fd = np.int64(_open(path, _OPEN_FLAGS | _DIRECT))
        if fd < 0 and load_i32(_errno()) != _INVALID:
            return -np.int64(load_i32(_errno()))
    if fd < 0:
        fd = np.int64(_open(path, _OPEN_FLAGS))
    return fd if fd >= 0 else -np.int64(load_i32(_errno()))


@inlined
def read_at(descriptor, offset, length, wanted, target):
    """Read up to `length` bytes, at least `wanted`, to `target`; errno, or SHORT_READ."""
    done = 0
    while done < wanted:
        got = _pread(descriptor, target + done, length - done, offset + done)
        if got < 0:
            code = load_i32(_errno())
            if code == _INTERRUPTED:
                continue
            return code
        if got == 0:
            return SHORT_READ
        done += got
    return 0


_spare_byte = np.zeros(1, np.uint8)
spare_iovec = np.array([_spare_byte.ctypes.data, 1], np.int64)
"""An ``iovec`` for bytes that are discarded.

The name must not be a word of a table: kernel keys take every name in a function for a global, and an address would make each key unique.
"""


@step
def read_record(context, sample, thread):
    """Read a record. Status: errno, or SHORT_READ."""
    at = 8 * sample
    return read_at(
        load_i64(load_i64(context + reading.descriptors) + at), load_i64(load_i64(context + reading.offsets) + at),
        load_i64(load_i64(context + reading.lengths) + at), load_i64(load_i64(context + reading.needed) + at),
        load_i64(load_i64(context + reading.addresses) + at),
    )  # fmt: skip


@compiled(2)
def count_waiting(context, count):
    """How many of `count` records are not in memory or give an error: their last bytes are read without waiting.

    If there are none, the pages of untouched records are put into the map, so that their readers take no page faults. The table is
    MAPPED_RECORDS.
    """
    waiting = 0
    for k in range(0, 8 * count, 8):
        size = load_i64(load_i64(context + mapped.sizes) + k)
        if size > 0:
            last = load_i64(load_i64(context + mapped.offsets) + k) + size - 1
            descriptor = load_i64(load_i64(context + mapped.descriptors) + k)
            waiting += _preadv2(descriptor, load_i64(context + mapped.one_byte), 1, last, _NO_WAIT) != 1
    if waiting != 0:
        return waiting
    for k in range(0, 8 * count, 8):
        size = load_i64(load_i64(context + mapped.sizes) + k)
        known = load_i64(context + mapped.touched) + load_i64(load_i64(context + mapped.indices) + k)
        if size > 0 and load_u8(known) == 0:
            store_u8(known, 1)
            start = load_i64(load_i64(context + mapped.addresses) + k)
            first = start & -_PAGE
            _madvise(first, ((start + size + _PAGE - 1) & -_PAGE) - first, _POPULATE_READ)
    return 0


@compiled(2, brief=True)
def read_at_once(context, count):
    """Read the records that are in memory. Returns how many of `count` are left. The table is READ_RECORDS."""
    piece = _iovec()
    left = 0
    for k in range(0, 8 * count, 8):
        size = load_i64(load_i64(context + reading.lengths) + k)
        piece[0], piece[1] = load_i64(load_i64(context + reading.addresses) + k), size
        start = load_i64(load_i64(context + reading.offsets) + k)
        if size > 0:
            left += _preadv2(load_i64(load_i64(context + reading.descriptors) + k), address(piece), 1, start, _NO_WAIT) != size
    return left


@step
def copy_part(context, sample, thread):
    """Copy a part of a record."""
    at = 8 * sample
    source, size = load_i64(load_i64(context + copying.sources) + at), load_i64(load_i64(context + copying.sizes) + at)
    copy_bytes(load_i64(load_i64(context + copying.targets) + at), source, size)
    return 0


@step
def advise_record(context, sample, thread):
    """Ask the system to read a record into its cache. Errors are left to the real read."""
    at = 8 * sample
    offset, size = load_i64(load_i64(context + advising.offsets) + at), load_i64(load_i64(context + advising.sizes) + at)
    _advise(load_i64(load_i64(context + advising.descriptors) + at), offset, size, _WILL_NEED)
    return 0


@compiled(2)
def close_all(descriptors, count):
    """Close the open (not negative) ones of `count` descriptors. Also called after an error."""
    for k in range(count):
        fd = load_i64(descriptors + 8 * k)
        if fd >= 0:
            _close(fd)
    return 0


@compiled(3, brief=True)
def lay_out(sizes, count, places):
    """Compute offsets (int64[count] at `places`) of samples of these sizes: on multiples of 64, or without gaps if all are equal.

    Returns twice the total number of bytes, plus 1 if there are no gaps.
    """
    equal = count > 0
    for k in range(1, count):
        equal = equal and load_i64(sizes + 8 * k) == load_i64(sizes)
    total = 0
    for k in range(count):
        store_i64(places + 8 * k, total)
        size = load_i64(sizes + 8 * k)
        total += size if equal else (size + 63) & -64
    return 2 * total + (1 if equal else 0)
