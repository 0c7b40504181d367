"""Entropy-coded bytes without stuffing, and the reservoir of bits that decoders take from.

The problem. A Huffman code begins where the code before it ends, so nothing can be computed ahead: the time from one code to the next is
the time of the decoder. JPEG writes 0xFF in the data as FF 00, and ends the data by FF and another byte.

What does not work:

- Testing each byte for 0xFF while bits are read: a branch per byte, in the middle of the chain of dependent steps.
- Filling the reservoir byte by byte, when less than a code is left: the branch is taken at random and mispredicted.
- Shifting the valid bits to the lowest places: every look-up needs a shift by a variable and a mask.

The solution. Stuffing is removed first, 32 bytes at a time (:func:`unstuffed`): a vector comparison finds the first 0xFF. The reservoir is
a 64-bit word whose valid bits begin at the highest bit. :func:`refilled` loads eight bytes without a branch: bits below `count` may already
be set, but they are the same bits that come next, so ``or`` changes nothing. At least 56 bits are valid after a refill, and one refill
serves three look-ups of the common kind. A look-up is one shift by a constant.

Bounds. The word is loaded behind the end, too: the data has :data:`PADDING` bytes behind it. A block takes at most 208 bytes (64 codes of
16 bits with up to 10 more bits each), so decoders check for the end once per block.
"""

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
