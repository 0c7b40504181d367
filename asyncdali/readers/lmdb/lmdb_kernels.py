"""Walks an LMDB file. Every page pointer, count and size is checked, so a damaged file gives a status."""

from __future__ import annotations

import numpy as np

from ...compiled.intrinsics import load_i64, load_u8, local_array, store_i64
from ...compiled.step import compiled, inlined
from ..containers.record_kernels import read_at
from .lmdb_tables import ENTRY

HEADER = 16
_BRANCH, _LEAF, _LEAF2, _SUB_PAGE = 1, 2, 0x20, 0x40
_BIG, _SUB_DATA, _DUPLICATES = 1, 2, 4
DEPTH = 32
"""Most levels of a tree."""
_of_levels = local_array(np.int64, DEPTH)

BAD_PAGE, TOO_DEEP, TOO_MANY, SUB_DATABASE, BAD_NODE = (1 << 20) + 1, (1 << 20) + 2, (1 << 20) + 3, (1 << 20) + 4, (1 << 20) + 5
"""Statuses of :func:`walk`."""

entry = ENTRY.at


@inlined
def _u16(at):
    return np.int64(load_u8(at)) | np.int64(load_u8(at + 1)) << 8


@inlined
def _node(page, page_size, index):
    """Address of a node of the page; 0 if it is outside the page."""
    offset = _u16(page + HEADER + 2 * index)
    return page + offset if offset >= HEADER and offset + 8 <= page_size else 0


@inlined
def _read_page(descriptor, number, page_size, pages, page):
    """Read a page and check that it is a branch or a leaf with room for its node pointers."""
    if number < 2 or number >= pages:
        return BAD_PAGE
    code = read_at(descriptor, number * page_size, page_size, page_size, page)
    if code != 0:
        return code
    flags, lower = _u16(page + 10), _u16(page + 12)
    if load_i64(page) != number or flags & (_LEAF2 | _SUB_PAGE) or (flags & (_BRANCH | _LEAF)) not in (_BRANCH, _LEAF):
        return BAD_PAGE
    return BAD_PAGE if lower < HEADER or lower > page_size else 0


@inlined
def _leaf(page, number, page_size, pages, index, out):
    """The place of one record."""
    node = _node(page, page_size, index)
    if node == 0:
        return BAD_NODE
    size = _u16(node) | _u16(node + 2) << 16
    flags, key = _u16(node + 4), _u16(node + 6)
    if flags & (_SUB_DATA | _DUPLICATES):
        return SUB_DATABASE
    start = node - page + 8 + key
    base = number * page_size
    if flags & _BIG:
        if start + 8 > page_size:
            return BAD_NODE
        first = load_i64(page + start)
        if first < 2 or first >= pages or size > (pages - first) * page_size - HEADER:
            return BAD_NODE
        store_i64(out + entry.value_offset, first * page_size + HEADER)
    else:
        if start + size > page_size:
            return BAD_NODE
        store_i64(out + entry.value_offset, base + start)
    store_i64(out + entry.value_length, size)
    store_i64(out + entry.key_offset, base + node - page + 8)
    store_i64(out + entry.key_length, key)
    return 0


@compiled(7)
def walk(descriptor, root, page_size, pages, memory, out, capacity):
    """The records below page `root` in key order, one ENTRY each. Returns their number, or minus a status.

    `memory`: the address of :data:`DEPTH` pages.
    """
    numbers, nexts = _of_levels(), _of_levels()
    code = _read_page(descriptor, root, page_size, pages, memory)
    if code != 0:
        return -code
    numbers[0], nexts[0] = root, 0
    level, count, seen = 0, 0, 1
    while level >= 0:
        page = memory + level * page_size
        index = nexts[level]
        if index >= (_u16(page + 12) - HEADER) >> 1:
            level -= 1
            continue
        nexts[level] = index + 1
        if _u16(page + 10) & _LEAF:
            if count >= capacity:
                return -TOO_MANY
            code = _leaf(page, numbers[level], page_size, pages, index, out + entry.size * count)
            if code != 0:
                return -code
            count += 1
            continue
        node = _node(page, page_size, index)
        if node == 0:
            return -BAD_NODE
        child = _u16(node) | _u16(node + 2) << 16 | _u16(node + 4) << 32
        level += 1
        seen += 1
        if level >= DEPTH or seen > pages:  # more pages than the file has: the tree has a cycle
            return -TOO_DEEP
        code = _read_page(descriptor, child, page_size, pages, memory + level * page_size)
        if code != 0:
            return -code
        numbers[level], nexts[level] = child, 0
    return count
