"""Entropy-coded bytes without stuffing, and the reservoir of bits that decoders take from."""

from __future__ import annotations

import numpy as np

from ...compiled.intrinsics import (  # fmt: skip
    copy_to_ff,
    load_big_endian_64,
    load_u8,
    shift_right,
    store_u8,
)
from ...compiled.step import inlined

PADDING = 1024
"""Padding behind the unstuffed data. A block takes at most 208 bytes, and decoders check for the end once per block."""


@inlined
def refilled(buffer, count, at):
    """(buffer, count, at) with at least 56 valid bits in the buffer, from its highest bit down. Bits below `count` may already be set:
    they are the bits that come next."""
    return buffer | shift_right(load_big_endian_64(at), count), count | 56, at + ((63 - count) >> 3)


@inlined
def unstuffed(source, stop, target):
    """Copy entropy-coded data from `source` to `target` without stuffing bytes, up to a marker.

    Returns the addresses behind the last byte written and behind the marker; both are 0 if no marker comes before `stop`. `target` must
    have room for the whole source and 32 more bytes.
    """
    while True:
        while source + 32 <= stop:
            clean = copy_to_ff(target, source)
            source += clean
            target += clean
            if clean < 32:
                break
        while source < stop and load_u8(source) != 0xFF:
            store_u8(target, load_u8(source))
            source += 1
            target += 1
        if source + 2 > stop:
            return np.int64(0), np.int64(0)
        source += 2
        if load_u8(source - 1) != 0:
            return target, source
        store_u8(target, np.uint8(0xFF))
        target += 1
