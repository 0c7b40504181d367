"""Lists directories without the interpreter: filters and sorts names, and joins them to paths."""

from __future__ import annotations

from ...compiled import kinds
from ...compiled.intrinsics import copy_bytes, load_i32, load_i64, load_u8, store_i32, store_i64, store_u8
from ...compiled.step import compiled, inlined
from .listing_tables import LISTING, SUFFIX

_opendir = kinds.ExternalFunction("opendir", kinds.int64(kinds.int64))
_readdir = kinds.ExternalFunction("readdir", kinds.int64(kinds.int64))
_closedir = kinds.ExternalFunction("closedir", kinds.int32(kinds.int64))
_access = kinds.ExternalFunction("access", kinds.int32(kinds.int64, kinds.int32))
_strlen = kinds.ExternalFunction("strlen", kinds.int64(kinds.int64))
_strcmp = kinds.ExternalFunction("strcmp", kinds.int32(kinds.int64, kinds.int64))
_errno = kinds.ExternalFunction("__errno_location", kinds.int64())

# struct dirent of 64-bit Linux
_TYPE, _NAME = 18, 19
_UNKNOWN, _DIRECTORY, _LINK = 0, 4, 10
_DENIED = 13

at, ending = LISTING.at, SUFFIX.at
GROW = -1
"""Result: one directory does not fit into the given memory."""


@inlined
def _ends_with(name, length, suffix, count, fold):
    """Whether a name ends in `count` bytes. `fold`: ASCII letters of either case are equal; the suffix is then in lower case."""
    if length < count:
        return False
    for k in range(count):
        byte = load_u8(name + length - count + k)
        if fold and 65 <= byte <= 90:
            byte += 32
        if byte != load_u8(suffix + k):
            return False
    return True


@inlined
def _matches(table, name, length):
    """Whether a name has one of the suffixes; without any, all names do."""
    count, suffix = load_i64(table + at.suffix_count), load_i64(table + at.suffixes)
    for _ in range(count):
        size = load_i64(suffix + ending.length)
        if _ends_with(name, length, load_i64(suffix + ending.address), size, load_i64(table + at.fold)):
            return True
        suffix += ending.size
    return count == 0


@inlined
def _is_directory(folder, folder_length, name, length, scratch):
    """Whether a link, or an entry of unknown type, is a directory: a directory contains "."."""
    copy_bytes(scratch, folder, folder_length)
    store_u8(scratch + folder_length, 47)
    copy_bytes(scratch + folder_length + 1, name, length)
    end = scratch + folder_length + 1 + length
    store_u8(end, 47)
    store_u8(end + 1, 46)
    store_u8(end + 2, 0)
    return _access(scratch, 0) == 0 or load_i32(_errno()) == _DENIED


@inlined
def _sort(order, other, count):
    """Sort addresses of texts in byte order, by merging. Returns the address of the result."""
    width = 1
    while width < count:
        start = 0
        while start < count:
            left, right = start, min(start + width, count)
            middle, end = right, min(start + 2 * width, count)
            for k in range(start, end):
                if left < middle and (
                    right >= end or _strcmp(load_i64(order + 8 * left), load_i64(order + 8 * right)) <= 0
                ):
                    store_i64(other + 8 * k, load_i64(order + 8 * left))
                    left += 1
                else:
                    store_i64(other + 8 * k, load_i64(order + 8 * right))
                    right += 1
            start = end
        order, other = other, order
        width *= 2
    return order


@inlined
def _read_names(table, folder, folder_length):
    """Names of the matching files in a directory, into scratch memory. Returns their number, GROW, or -2 - errno."""
    directory = _opendir(folder)
    if directory == 0:
        return -2 - load_i32(_errno())
    scratch, room = load_i64(table + at.scratch), load_i64(table + at.scratch_bytes)
    order, most = load_i64(table + at.order), load_i64(table + at.entries)
    count, used, ordered, last = 0, 0, True, 0
    while True:
        entry = _readdir(directory)
        if entry == 0:
            break
        name, kind = entry + _NAME, load_u8(entry + _TYPE)
        if kind == _DIRECTORY:
            continue
        length = _strlen(name)
        if not _matches(table, name, length):
            continue
        if count == most or used + 2 * length + folder_length + 8 > room:
            _closedir(directory)
            return GROW
        if (kind in (_LINK, _UNKNOWN)) and _is_directory(folder, folder_length, name, length, scratch + used):
            continue
        copy_bytes(scratch + used, name, length + 1)
        store_i64(order + 8 * count, scratch + used)
        if count and ordered:
            ordered = _strcmp(last, scratch + used) <= 0
        last = scratch + used
        count += 1
        used += length + 1
    _closedir(directory)
    store_i64(table + at.names_bytes, used)
    if not ordered:
        result = _sort(order, load_i64(table + at.other), count)
        if result != order:
            copy_bytes(order, result, 8 * count)
    return count


@compiled(1)
def list_folders(table):
    """Paths of the files of some directories, each directory's in byte order, until the memory is full.

    The table is LISTING. Status: 0, GROW, or the errno of the directory that could not be read.
    """
    paths, room = load_i64(table + at.paths), load_i64(table + at.paths_bytes)
    written, used = 0, 0
    folder_number = load_i64(table + at.first)
    status = 0
    while folder_number < load_i64(table + at.end):
        folder = load_i64(table + at.folders) + load_i64(load_i64(table + at.folder_starts) + 8 * folder_number)
        folder_length = _strlen(folder)
        count = _read_names(table, folder, folder_length)
        if count < GROW:
            status = -2 - count
            break
        needed = count * (folder_length + 1) + load_i64(table + at.names_bytes)
        if count == GROW or written + count > load_i64(table + at.entries) or used + needed > room:
            status = GROW if written == 0 else 0
            break
        order = load_i64(table + at.order)
        for k in range(count):
            name = load_i64(order + 8 * k)
            length = _strlen(name)
            store_i64(load_i64(table + at.starts) + 8 * written, used)
            store_i32(load_i64(table + at.numbers) + 4 * written, folder_number)
            copy_bytes(paths + used, folder, folder_length)
            store_u8(paths + used + folder_length, 47)
            copy_bytes(paths + used + folder_length + 1, name, length + 1)
            used += folder_length + length + 2
            written += 1
        folder_number += 1
    store_i64(table + at.first, folder_number)
    store_i64(table + at.written, written)
    store_i64(table + at.used, used)
    return status
