"""Entropy-coded segments: the data between two restart markers, or all data of a scan."""

from __future__ import annotations

import numpy as np

from ...compiled.intrinsics import load_i64, load_u8, store_i64
from ...compiled.step import inlined
from .bit_reader import unstuffed
from .huffman_decoding import AT, BUFFER, COUNT, END_RUN, LAST_DC, LIMIT
from .work_area import BYTES_AT, DATA_STOP, PLAN, SEGMENT, SEGMENT_BITS, SOURCE, STATE


@inlined
def used_bits(work):
    """Number of bits consumed from the segment."""
    state, plan = work + STATE, work + PLAN
    return 8 * (load_i64(state + AT) - load_i64(plan + BYTES_AT)) - load_i64(state + COUNT)


@inlined
def begin_segment(work):
    """Advance to the next segment. False if the marker before it is wrong, or if no marker ends it."""
    state, plan = work + STATE, work + PLAN
    number, source, target = load_i64(plan + SEGMENT) + 1, load_i64(plan + SOURCE), load_i64(plan + BYTES_AT)
    if number > 0 and np.int64(load_u8(source - 1)) != 0xD0 | ((number - 1) & 7):
        return False
    end, source = unstuffed(source, load_i64(plan + DATA_STOP), target)
    store_i64(plan + SEGMENT, number)
    store_i64(plan + SOURCE, source)
    store_i64(plan + SEGMENT_BITS, 8 * (end - target))
    store_i64(state + BUFFER, 0)
    store_i64(state + COUNT, 0)
    store_i64(state + AT, target)
    store_i64(state + LIMIT, end + 8)
    store_i64(state + END_RUN, 0)
    for k in range(3):
        store_i64(state + LAST_DC + 8 * k, 0)
    return source != 0


@inlined
def segment_is_over(work, followed):
    """Whether the segment had all bits that were consumed; and, if another segment follows, whether only padding is left."""
    left = load_i64(work + PLAN + SEGMENT_BITS) - used_bits(work)
    return left >= 0 and (left < 8 or not followed)


@inlined
def past_scan(work):
    """The start of the segment after the scan's last marker; 0 if no marker ends the scan.

    libjpeg-turbo looks further ahead than a window needs, and refuses files that are truncated there.
    """
    plan = work + PLAN
    source = load_i64(plan + SOURCE)
    while source != 0 and load_u8(source - 1) & 0xF8 == 0xD0:
        _, source = unstuffed(source, load_i64(plan + DATA_STOP), load_i64(plan + BYTES_AT))
    return source if source != 0 and load_u8(source - 1) >= 0xC0 and load_u8(source - 1) != 0xFF else np.int64(0)
