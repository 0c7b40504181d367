"""Reads whole files without the interpreter.

One step opens the files and reads those that fit into the memory reserved for the batch. Another step reads the others when their sizes
are known."""

from __future__ import annotations

from ...compiled import kinds
from ...compiled.intrinsics import call3, copy_bytes, fetch_add, load_i32, load_i64, store_i64
from ...compiled.step import compiled, inlined, step
from .file_tables import ADVISE_FILES, COPY_PATHS, OPEN_FILES, READ_DIRECT, READ_FILES

_open = kinds.ExternalFunction("open", kinds.int32(kinds.int64, kinds.int32))
_close = kinds.ExternalFunction("close", kinds.int32(kinds.int32))
_lseek = kinds.ExternalFunction("lseek", kinds.int64(kinds.int32, kinds.int64, kinds.int32))
_pread = kinds.ExternalFunction("pread", kinds.int64(kinds.int32, kinds.int64, kinds.int64, kinds.int64))
_advise = kinds.ExternalFunction("posix_fadvise", kinds.int32(kinds.int32, kinds.int64, kinds.int64, kinds.int32))
_strlen = kinds.ExternalFunction("strlen", kinds.int64(kinds.int64))
_errno = kinds.ExternalFunction("__errno_location", kinds.int64())

opening, reading, direct, advising, copying = OPEN_FILES.at, READ_FILES.at, READ_DIRECT.at, ADVISE_FILES.at, COPY_PATHS.at

_OPEN_FLAGS = 0o2000000 | 0o4000  # O_CLOEXEC | O_NONBLOCK: opening a pipe must not wait for its writer
_SEEK_END = 2
_WILL_NEED = 3
SHORT_READ = 1 << 20
"""Status: the file ended before its size."""


DONE = -2
"""Instead of a descriptor: the file has been read and closed."""


@inlined
def _read_whole(fd, size, target):
    done = 0
    while done < size:
        got = _pread(fd, target + done, size - done, done)
        if got < 0:
            return load_i32(_errno())
        if got == 0:
            return SHORT_READ
        done += got
    return 0


@inlined
def _room(context, sample, size):
    """The address in the reserved memory for a file of this size; 0 if the file does not fit."""
    block, capacity = load_i64(context + opening.block), load_i64(context + opening.capacity)
    expected = load_i64(context + opening.expected)
    if expected != 0:
        return block + sample * expected if size == expected else 0
    if capacity == 0:
        return 0
    start = fetch_add(context + opening.used, (size + 63) & -64)
    return block + start if start + size <= capacity else 0


@step
def open_step(context, sample, thread):
    """Open each file, find its size, and read it if there is room. Status: errno, or SHORT_READ.

    A file is scanned here because it is in the processor's cache now, and because this step runs without the interpreter lock."""
    path = load_i64(context + opening.paths) + load_i64(load_i64(context + opening.starts) + 8 * sample)
    descriptors = load_i64(context + opening.descriptors)
    fd = _open(path, _OPEN_FLAGS)
    if fd < 0:
        return load_i32(_errno())
    size = _pread(fd, path, 0, 0)  # reads nothing; it fails for a directory, whose size is meaningless
    if size == 0:
        size = _lseek(fd, 0, _SEEK_END)
    if size < 0:
        code = load_i32(_errno())
        _close(fd)
        return code
    store_i64(load_i64(context + opening.sizes) + 8 * sample, size)
    target = _room(context, sample, size)
    if target != 0:
        store_i64(load_i64(context + opening.addresses) + 8 * sample, target)
        store_i64(descriptors + 8 * sample, DONE)
        code = _read_whole(fd, size, target)
        _close(fd)
        scan = load_i64(context + opening.scan)
        if scan != 0 and code == 0:
            head = load_i64(context + opening.heads) + sample * load_i64(context + opening.head_bytes)
            store_i64(load_i64(context + opening.marks) + 8 * sample, call3(scan, target, size, head))
        return code
    if load_i64(context + opening.read_ahead):
        _advise(fd, 0, 0, _WILL_NEED)
    if sample < load_i64(context + opening.may_stay_open):
        store_i64(descriptors + 8 * sample, fd)
    else:
        _close(fd)
    return 0


@compiled(2, brief=True)
def look_back(context, count):
    """Fill the table's field `found` with the results of `open_step`, if it had no errors."""
    descriptors, sizes = load_i64(context + opening.descriptors), load_i64(context + opening.sizes)
    left = empty = total = 0
    marks, common = load_i64(context + opening.marks), -1
    equal = load_i64(sizes) if count > 0 else 0
    for k in range(0, 8 * count, 8):
        size = load_i64(sizes + k)
        left += load_i64(descriptors + k) != DONE
        empty += size == 0
        total += (size + 63) & -64
        equal = equal if size == equal else 0
        if marks != 0:
            common &= load_i64(marks + k)
    store_i64(context + opening.found_left, left)
    store_i64(context + opening.found_empty, empty)
    store_i64(context + opening.found_bytes, total)
    store_i64(context + opening.found_equal, equal)
    store_i64(context + opening.found_marks, common)
    return 0


@step
def read_step(context, sample, thread):
    """Read each unfinished file into its place; open it again if it is not open. Status: errno, or SHORT_READ."""
    descriptors = load_i64(context + reading.descriptors)
    fd = load_i64(descriptors + 8 * sample)
    if fd == DONE:
        return 0
    if fd < 0:
        fd = _open(load_i64(context + reading.paths) + load_i64(load_i64(context + reading.starts) + 8 * sample), _OPEN_FLAGS)
        if fd < 0:
            return load_i32(_errno())
    size, target = load_i64(load_i64(context + reading.sizes) + 8 * sample), load_i64(load_i64(context + reading.addresses) + 8 * sample)
    code = _read_whole(fd, size, target)
    store_i64(descriptors + 8 * sample, DONE)
    _close(fd)
    return code


@step
def advise_step(context, sample, thread):
    """Ask the system to read a file into its cache. Errors are left to the real read."""
    path = load_i64(context + advising.paths) + load_i64(load_i64(context + advising.starts) + 8 * sample)
    fd = _open(path, _OPEN_FLAGS)
    if fd >= 0:
        _advise(fd, 0, 0, _WILL_NEED)
        _close(fd)
    return 0


@compiled(5, brief=True)
def join_texts(texts, starts, count, out, room):
    """Copy the NUL-terminated texts at ``texts + starts[k]``, with their NULs, as far as there is room. Returns the bytes of all."""
    size = 0
    for k in range(0, 8 * count, 8):
        text = texts + load_i64(starts + k)
        length = _strlen(text) + 1
        if size + length <= room:
            copy_bytes(out + size, text, length)
        size += length
    return size
