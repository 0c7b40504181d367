"""Parses Caffe ``Datum`` messages without the interpreter."""

from __future__ import annotations

from ...compiled.intrinsics import load_i64, load_u8, store_i64, store_u8
from ...compiled.step import step
from ..containers.protobuf_kernels import BYTES, FIXED32, VARINT, field
from .caffe_tables import DATUM, JOIN_PLANES, PARSE_DATUM, SAID_ENCODED, SAID_RAW

BROKEN = (1 << 20) + 1
"""Status: the record is no Datum."""

datum, parse, join = DATUM.at, PARSE_DATUM.at, JOIN_PLANES.at


@step
def parse_datum(context, sample, thread):
    """Find the parts of one record."""
    at = load_i64(load_i64(context + parse.addresses) + 8 * sample)
    end = at + load_i64(load_i64(context + parse.sizes) + 8 * sample)
    out = load_i64(context + parse.found) + datum.size * sample
    store_i64(out + datum.data_address, at)
    while at < end:
        number, kind, value, length, at = field(at, end)
        if number < 0:
            return BROKEN
        if number == 4 and kind == BYTES:
            store_i64(out + datum.data_address, value)
            store_i64(out + datum.data_length, length)
        elif number == 6 and (kind == FIXED32 or (kind == BYTES and length > 0)):
            store_i64(out + datum.floats, 1)
        elif kind != VARINT:
            continue
        elif number <= 3:
            store_i64(out + datum.shape_channels + 8 * (number - 1), value)
        elif number == 5:
            store_i64(out + datum.label, value)
            store_i64(out + datum.has_label, 1)
        elif number == 7:
            store_i64(out + datum.encoding, SAID_ENCODED if value != 0 else SAID_RAW)
    return 0


@step
def join_planes(context, sample, thread):
    """Make pixels of the planes of one image. Caffe stores the byte of channel c, row y and column x at (c * height + y) * width + x."""
    source, target = load_i64(load_i64(context + join.planes) + 8 * sample), load_i64(load_i64(context + join.pixels) + 8 * sample)
    plane, channels = load_i64(load_i64(context + join.areas) + 8 * sample), load_i64(load_i64(context + join.channels) + 8 * sample)
    for channel in range(channels):
        for pixel in range(plane):
            store_u8(target + channels * pixel + channel, load_u8(source + plane * channel + pixel))
    return 0
