"""Finding the parts of a Caffe ``Datum`` message without the interpreter."""

from __future__ import annotations

from ..compiled.intrinsics import load_i64, store_i64
from ..compiled.step import step
from .wire_kernels import BYTES, VARINT, field

BROKEN = (1 << 20) + 1
"""Status: not a Datum."""

DATUM_FIELDS = 8
"""Per sample: address and length of the data, channels, height, width, label, whether there is one, encoding (0 not said, 1 yes, 2 no)."""


@step
def parse_datum(context, sample, thread):
    """Context: record addresses, sizes (int64[samples]), found (int64[samples, DATUM_FIELDS], zeros)."""
    at = load_i64(load_i64(context) + 8 * sample)
    end = at + load_i64(load_i64(context + 8) + 8 * sample)
    out = load_i64(context + 16) + 8 * DATUM_FIELDS * sample
    store_i64(out, at)
    while at < end:
        number, kind, value, length, at = field(at, end)
        if number < 0:
            return BROKEN
        if number == 4 and kind == BYTES:
            store_i64(out, value)
            store_i64(out + 8, length)
        elif kind != VARINT:
            continue
        elif number <= 3:
            store_i64(out + 8 + 8 * number, value)
        elif number == 5:
            store_i64(out + 40, value)
            store_i64(out + 48, 1)
        elif number == 7:
            store_i64(out + 56, 1 if value != 0 else 2)
    return 0
