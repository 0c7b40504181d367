"""Parses Caffe2 ``TensorProtos`` messages without the interpreter: finds the tensors of a record and writes their numbers."""

from __future__ import annotations

from ...compiled.intrinsics import load_i64, load_u8, store_i32, store_i64, store_u8
from ...compiled.step import inlined, step
from ..containers.protobuf_kernels import BYTES, FIXED32, VARINT, count_varints, field, varint
from .caffe2_tables import AXES, PARSE_TENSORS, TENSOR, WRITE_TENSORS

BROKEN, COUNT = (1 << 20) + 1, (1 << 20) + 2
"""Statuses: the record is no TensorProtos; it has another number of tensors than expected."""

FLOAT, INT32, BYTE, STRING, INT64 = 1, 2, 3, 4, 10
"""Element types of a TensorProto."""

tensor, parse, write = TENSOR.at, PARSE_TENSORS.at, WRITE_TENSORS.at


@inlined
def _dimensions(kind, value, length, out):
    """One dimension, or several packed dimensions."""
    end = value + length
    more = True
    while more:
        extent = value
        if kind == BYTES:
            if value >= end:
                break
            extent, value = varint(value, end)
            if value == 0:
                return -1
        count = load_i64(out + tensor.dimensions)
        if count < AXES:
            store_i64(out + tensor.extent_0 + 8 * count, extent)
        store_i64(out + tensor.dimensions, count + 1)
        more = kind == BYTES
    return 0


@inlined
def _holds(number, kind, length, value, wanted):
    """How many numbers of type `wanted` this field has; -1 if the field is malformed."""
    if wanted == FLOAT and number == 3:
        if kind == BYTES:
            return length >> 2 if length & 3 == 0 else -1
        return 1 if kind == FIXED32 else 0
    if (wanted == INT32 and number == 4) or (wanted == INT64 and number == 10):
        if kind == BYTES:
            return count_varints(value, value + length)
        return 1 if kind == VARINT else 0
    return 0


@inlined
def _measure(at, end, out):
    """Fill the TENSOR at `out` (after its first field) from one TensorProto; -1 if the message is malformed."""
    start = at
    wanted = FLOAT
    while at < end:
        number, kind, value, length, at = field(at, end)
        if number < 0:
            return -1
        if number == 1 and (kind == VARINT or kind == BYTES) and _dimensions(kind, value, length, out) < 0:
            return -1
        if number == 2 and kind == VARINT:
            wanted = value
    store_i64(out + tensor.type, wanted)
    count = 0
    at = start
    while at < end:
        number, kind, value, length, at = field(at, end)
        more = _holds(number, kind, length, value, wanted)
        if more < 0:
            return -1
        count += more
        if kind == BYTES and ((wanted == BYTE and number == 5) or (wanted == STRING and number == 6)):
            if count == 0 or wanted == BYTE:
                store_i64(out + tensor.data_address, value)
                store_i64(out + tensor.data_length, length)
            count += 1
    store_i64(out + tensor.numbers, count)
    return 0


@step
def parse_tensors(context, sample, thread):
    """Find the tensors of one record."""
    at = load_i64(load_i64(context + parse.addresses) + 8 * sample)
    end = at + load_i64(load_i64(context + parse.sizes) + 8 * sample)
    tensors = load_i64(context + parse.tensors)
    out = load_i64(context + parse.found) + tensor.size * tensors * sample
    count = 0
    while at < end:
        number, kind, value, length, at = field(at, end)
        if number < 0:
            return BROKEN
        if number != 1 or kind != BYTES:
            continue
        if count >= tensors:
            return COUNT
        store_i64(out + tensor.message_address, value)
        store_i64(out + tensor.message_length, length)
        if _measure(value, value + length, out) < 0:
            return BROKEN
        out += tensor.size
        count += 1
    return 0 if count == tensors else COUNT


@inlined
def _write_packed(value, end, size, target):
    while value < end:
        one, value = varint(value, end)
        if size == 4:
            store_i32(target, one)
        else:
            store_i64(target, one)
        target += size
    return target


@step
def write_tensors(context, sample, thread):
    """Write the numbers of some tensors."""
    tensors = load_i64(context + write.tensors)
    for k in range(load_i64(context + write.count)):
        row = load_i64(context + write.found) + tensor.size * (tensors * sample + load_i64(load_i64(context + write.which) + 8 * k))
        at = load_i64(row + tensor.message_address)
        end = at + load_i64(row + tensor.message_length)
        wanted = load_i64(row + tensor.type)
        size = 8 if wanted == INT64 else 4
        target = load_i64(load_i64(load_i64(context + write.targets) + 8 * k) + 8 * sample)
        while at < end:
            number, kind, value, length, at = field(at, end)
            if wanted == FLOAT and number == 3 and (kind == BYTES or kind == FIXED32):
                for i in range(length):
                    store_u8(target + i, load_u8(value + i))
                target += length
            elif (wanted == INT32 and number == 4) or (wanted == INT64 and number == 10):
                if kind == BYTES:
                    target = _write_packed(value, value + length, size, target)
                elif kind == VARINT:
                    if size == 4:
                        store_i32(target, value)
                    else:
                        store_i64(target, value)
                    target += size
    return 0
