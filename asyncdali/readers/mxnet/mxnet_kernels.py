"""Parses RecordIO: joins the parts of a record, and finds its label and its image."""

from __future__ import annotations

import numpy as np

from ...compiled import kinds
from ...compiled.intrinsics import load_i32, load_i64, store_i32, store_i64
from ...compiled.step import inlined, step
from .mxnet_tables import IMAGE_RECORD, PARSE_RECORD

BAD_MAGIC, BAD_LENGTH, BAD_PARTS, TOO_SHORT = (1 << 20) + 1, (1 << 20) + 2, (1 << 20) + 3, (1 << 20) + 4
"""Statuses of :func:`parse_record`."""

MAGIC = 0xCED7230A - (1 << 32)  # 0xCED7230A as a signed int32
_WHOLE, _FIRST, _MIDDLE, _LAST = 0, 1, 2, 3
_HEADER = 24
ALL, IN_PLACE, UNJOINED = 0, 1, 2
"""Which records :func:`parse_record` handles: all; all, but read-only; those that IN_PLACE left."""

record, parse = IMAGE_RECORD.at, PARSE_RECORD.at

_memmove = kinds.ExternalFunction("memmove", kinds.int64(kinds.int64, kinds.int64, kinds.int64))


@inlined
def _join(at, end):
    """(address, length) of the payload of the record at `at`, with its parts joined. The length is minus a status if it is malformed.

    A writer splits a record where its data contains the magic word, and omits the word.
    """
    target = at + 8
    length = np.int64(0)
    expected_first = True
    while True:
        if end - at < 8:
            return target, -BAD_LENGTH
        if load_i32(at) != MAGIC:
            return target, -BAD_MAGIC
        word = np.int64(load_i32(at + 4)) & 0xFFFFFFFF
        kind, size = word >> 29, word & 0x1FFFFFFF
        if size > end - at - 8:
            return target, -BAD_LENGTH
        if kind > _LAST or (kind == _WHOLE or kind == _FIRST) != expected_first:
            return target, -BAD_PARTS
        if not expected_first:
            store_i32(target + length, MAGIC)
            length += 4
            _memmove(target + length, at + 8, size)
        length = length + size
        if kind == _WHOLE or kind == _LAST:
            return target, length
        expected_first = False
        at += 8 + ((size + 3) & ~3)


@inlined
def _in_parts(at, size):
    return size >= 8 and load_i32(at) == MAGIC and (np.int64(load_i32(at + 4)) & 0xFFFFFFFF) >> 29 != _WHOLE


@step
def parse_record(context, sample, thread):
    """Join the parts of a record, and find its image and its labels.

    With IN_PLACE a record in several parts is not joined: the address of its image is 0.
    """
    at, size = load_i64(load_i64(context + parse.addresses) + 8 * sample), load_i64(load_i64(context + parse.sizes) + 8 * sample)
    out = load_i64(context + parse.found) + record.size * sample
    which = load_i64(context + parse.which)
    if which == UNJOINED and load_i64(out + record.image_address) != 0:
        return 0
    if which == IN_PLACE and _in_parts(at, size):
        store_i64(out + record.image_address, 0)
        return 0
    payload, length = _join(at, at + size)
    if length < 0:
        return -length
    if length < _HEADER:
        return TOO_SHORT
    labels = np.int64(load_i32(payload)) & 0xFFFFFFFF
    if 4 * labels > length - _HEADER:
        return TOO_SHORT
    store_i64(out + record.image_address, payload + _HEADER + 4 * labels)
    store_i64(out + record.image_length, length - _HEADER - 4 * labels)
    store_i64(out + record.labels_address, payload + _HEADER if labels > 0 else payload + 4)
    store_i64(out + record.labels_count, labels if labels > 0 else 1)
    store_i64(out + record.label, load_i32(payload + 4))
    return 0
