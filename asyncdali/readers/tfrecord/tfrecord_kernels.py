"""Parses TFRecord framing and ``tensorflow.Example`` messages, without the interpreter."""

from __future__ import annotations

import numpy as np

from ...compiled.intrinsics import address, load_i64, load_u8, local_array, store_i64, store_u8, view_u32
from ...compiled.step import compiled, inlined, step
from ..containers.protobuf_kernels import BYTES, FIXED32, VARINT, count_varints, field, varint
from ..containers.record_kernels import read_at
from .tfrecord_crc_kernels import crc32c
from .tfrecord_tables import FEATURE, FLOATS, INTEGERS, PARSE_EXAMPLE, PLACE, TEXTS, WRITE_NUMBERS

TOO_SHORT, WRONG_LENGTH, LENGTH_SUM, DATA_SUM, BROKEN, WRONG_KIND = ((1 << 20) + k for k in range(1, 7))
"""Statuses of :func:`parse_example`."""

FRAME = 16
"""Bytes around a payload: length (8), its checksum (4), the payload's checksum (4)."""

feature_at, parse, write, place = FEATURE.at, PARSE_EXAMPLE.at, WRITE_NUMBERS.at, PLACE.at
_frame = local_array(np.int64, 2)


@inlined
def _load_u32(at):
    return np.int64(view_u32(at, 1)[0])


@inlined
def _masked(crc):
    """The format rotates checksums by 15 bits and adds a constant, so that a checksum of data with checksums stays meaningful."""
    return ((((crc >> 15) | (crc << 17)) & 0xFFFFFFFF) + 0xA282EAD8) & 0xFFFFFFFF


@inlined
def _check_frame(at, size):
    if size < FRAME:
        return TOO_SHORT
    length = load_i64(at)
    if _masked(crc32c(at, 8)) != _load_u32(at + 8):
        return LENGTH_SUM
    if length < 0 or length > size - FRAME:
        return WRONG_LENGTH
    if _masked(crc32c(at + 12, length)) != _load_u32(at + 12 + length):
        return DATA_SUM
    return 0


@inlined
def _count_texts(at, end, out, count):
    """`count` and the number of texts of a list; -1 if the list is malformed."""
    while at < end:
        number, kind, value, length, at = field(at, end)
        if number < 0:
            return -1
        if number == 1 and kind == BYTES:
            if count == 0:
                store_i64(out + feature_at.text_address, value)
                store_i64(out + feature_at.text_length, length)
            count += 1
    return count


@inlined
def _count_floats(at, end):
    count = 0
    while at < end:
        number, kind, _, length, at = field(at, end)
        if number < 0 or (number == 1 and kind == BYTES and length & 3):
            return -1
        if number == 1 and kind == BYTES:
            count += length >> 2
        elif number == 1 and kind == FIXED32:
            count += 1
    return count


@inlined
def _count_integers(at, end):
    count = 0
    while at < end:
        number, kind, value, length, at = field(at, end)
        if number < 0:
            return -1
        if number == 1 and kind == BYTES:
            more = count_varints(value, value + length)
            if more < 0:
                return -1
            count += more
        elif number == 1 and kind == VARINT:
            count += 1
    return count


@inlined
def _feature(at, end, out):
    """Fill the FEATURE at `out` from a Feature message; -1 if the message is malformed.

    Lists of one kind are joined, and a list of another kind replaces them, as in every message of protocol buffers.
    """
    store_i64(out + feature_at.kind, 0)
    store_i64(out + feature_at.values, 0)
    found = 0
    lists = 0
    count = 0
    while at < end:
        begin = at
        number, kind, value, length, at = field(at, end)
        if number < 0:
            return -1
        if kind != BYTES or number > INTEGERS:
            continue
        if number != found:
            found, lists, count = number, begin, 0
        more = 0
        if found == TEXTS:
            count = _count_texts(value, value + length, out, count)
        elif found == FLOATS:
            more = _count_floats(value, value + length)
        else:
            more = _count_integers(value, value + length)
        if count < 0 or more < 0:
            return -1
        count += more
    store_i64(out + feature_at.kind, found)
    store_i64(out + feature_at.lists_address, lists)
    store_i64(out + feature_at.lists_length, end - lists)
    store_i64(out + feature_at.values, count)
    return 0


@inlined
def _wanted(at, length, names, lengths, count):
    """The number of the feature with this name, or -1."""
    for k in range(count):
        if load_i64(lengths + 8 * k) != length:
            continue
        name = load_i64(names + 8 * k)
        same = True
        for i in range(length):
            if load_u8(name + i) != load_u8(at + i):
                same = False
                break
        if same:
            return k
    return -1


@inlined
def _entry(at, end, context, out):
    """One pair of the map of features."""
    name, name_length, feature, feature_length = 0, 0, 0, 0
    while at < end:
        number, kind, value, length, at = field(at, end)
        if number < 0:
            return -1
        if kind == BYTES and number == 1:
            name, name_length = value, length
        elif kind == BYTES and number == 2:
            feature, feature_length = value, length
    names, lengths = load_i64(context + parse.names), load_i64(context + parse.name_lengths)
    k = _wanted(name, name_length, names, lengths, load_i64(context + parse.features))
    return 0 if k < 0 else _feature(feature, feature + feature_length, out + feature_at.size * k)


@inlined
def _features(at, end, context, out):
    while at < end:
        number, kind, value, length, at = field(at, end)
        if number < 0 or (number == 1 and kind == BYTES and _entry(value, value + length, context, out) < 0):
            return -1
    return 0


@step
def parse_example(context, sample, thread):
    """Check a record's frame and find the wanted features in its Example. Values of another kind than the declared one are an error."""
    at = load_i64(load_i64(context + parse.addresses) + 8 * sample)
    code = _check_frame(at, load_i64(load_i64(context + parse.sizes) + 8 * sample))
    if code != 0:
        return code
    out = load_i64(context + parse.found) + feature_at.size * load_i64(context + parse.features) * sample
    end = at + 12 + load_i64(at)
    at += 12
    while at < end:
        number, kind, value, length, at = field(at, end)
        if number < 0 or (number == 1 and kind == BYTES and _features(value, value + length, context, out) < 0):
            return BROKEN
    kinds = load_i64(context + parse.kinds)
    for k in range(load_i64(context + parse.features)):
        row = out + feature_at.size * k
        if load_i64(row + feature_at.values) > 0 and load_i64(row + feature_at.kind) != load_i64(kinds + 8 * k):
            return WRONG_KIND
    return 0


@inlined
def _copy_byte_range(source, target, count):
    for i in range(count):
        store_u8(target + i, load_u8(source + i))


@inlined
def _write_floats(at, end, target):
    while at < end:
        number, kind, value, length, at = field(at, end)
        if number == 1 and (kind == BYTES or kind == FIXED32):
            _copy_byte_range(value, target, length)
            target += length
    return target


@inlined
def _write_integers(at, end, target):
    while at < end:
        number, kind, value, length, at = field(at, end)
        if number != 1:
            continue
        if kind == VARINT:
            store_i64(target, value)
            target += 8
        elif kind == BYTES:
            stop = value + length
            while value < stop:
                one, value = varint(value, stop)
                store_i64(target, one)
                target += 8
    return target


@step
def write_numbers(context, sample, thread):
    """Write the numbers of features that :func:`parse_example` found."""
    features = load_i64(context + write.features)
    for k in range(load_i64(context + write.count)):
        number = features * sample + load_i64(load_i64(context + write.which) + 8 * k)
        row = load_i64(context + write.found) + feature_at.size * number
        kind = load_i64(load_i64(context + write.kinds) + 8 * k)
        if load_i64(row + feature_at.kind) != kind:
            continue
        at = load_i64(row + feature_at.lists_address)
        end = at + load_i64(row + feature_at.lists_length)
        target = load_i64(load_i64(load_i64(context + write.targets) + 8 * k) + 8 * sample)
        while at < end:
            found, wire, value, length, at = field(at, end)
            if found != kind or wire != BYTES:
                continue
            if kind == FLOATS:
                target = _write_floats(value, value + length, target)
            else:
                target = _write_integers(value, value + length, target)
    return 0


@compiled(5)
def scan_frames(descriptor, start, size, out, capacity):
    """Go from frame to frame, from `start` to the end of the file of `size` bytes.

    Writes at most `capacity` PLACEs to `out`, one per record. Returns their number, or minus a status (an errno or one of those above). One
    more PLACE after these receives the offset where the scan stopped.
    """
    frame = _frame()
    head = address(frame)
    count = 0
    at = start
    code = 0
    while at < size and count < capacity:
        code = read_at(descriptor, at, 12, 12, head)
        if code != 0:
            break
        if _masked(crc32c(head, 8)) != _load_u32(head + 8):
            code = LENGTH_SUM
            break
        length = frame[0]
        if length < 0 or length > size - at - FRAME:
            code = WRONG_LENGTH
            break
        row = out + place.size * count
        store_i64(row + place.offset, at)
        store_i64(row + place.length, length + FRAME)
        count += 1
        at += length + FRAME
    store_i64(out + place.size * capacity + place.offset, at)
    return -code if code != 0 else count
