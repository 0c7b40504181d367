"""Parses Caffe ``Datum`` messages without the interpreter."""

from __future__ import annotations

from ...compiled.intrinsics import load_i64, store_i64
from ...compiled.step import step
from ..containers.wire_kernels import BYTES, VARINT, field
from .caffe_tables import DATUM, PARSE_DATUM, SAID_ENCODED, SAID_RAW

BROKEN = (1 << 20) + 1
"""Status: the record is no Datum."""

datum, parse = DATUM.at, PARSE_DATUM.at


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
