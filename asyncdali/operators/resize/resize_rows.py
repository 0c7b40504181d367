"""``resize`` of pictures that are decoded row by row: each output row is computed as soon as its input rows exist.

The arithmetic uses the functions of ``resize_kernels`` in the same order, so the pixels are equal.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ...compiled.addresses import address_of
from ...compiled.feed_tables import FEED_STATE
from ...compiled.intrinsics import call3, larger, load_i64, smaller, store_i64, view_i32, view_i64
from ...compiled.step import compiled, inlined
from ..base import Step
from ..row_feeds import BAND, RowFeed
from .resize_kernels import _BYTES, ROWS, _columns, _row_blend
from .resize_tables import FILTER, RESIZE, RESIZE_RECORD, TAP_HEAD
from .resize_tap_kernels import DESCRIPTIONS, NN

SMALLEST = 2 << 20
"""Least bytes of a decoded picture that is resized row by row: the size of an L2 cache. Photographs of 0.19 megapixels
lost 3 %, 0.5 megapixels gained 1 %, 1 megapixel 3 %, 3 megapixels 8 %."""

at, word, head_at, state_at = RESIZE.at, RESIZE_RECORD.word, TAP_HEAD.at, FEED_STATE.at


@cache
def _taker(in_dtype: str, out_dtype: str) -> Any:
    """``take(state, made)``: compute the output rows for which the first `made` rows of the input suffice."""
    blend, columns = _row_blend(in_dtype), _columns(out_dtype)
    in_size, out_size = _BYTES[in_dtype], _BYTES[out_dtype]

    @inlined
    def take(state, made):
        context, sample, head = load_i64(state + state_at.context), load_i64(state + state_at.sample), load_i64(state + state_at.scratch)
        if made == 0:
            call3(load_i64(context + at.tap_tables), context, sample, head)
            store_i64(state + state_at.next, 0)
            return 0
        record = view_i64(load_i64(context + at.records) + word.size * sample, word.words)
        channels, height, width = record[word.channels], record[word.out_height], record[word.out_width]
        taps_y, taps_x = load_i64(head + head_at.height_count), load_i64(head + head_at.width_count)
        first_y, first_x = load_i64(head + head_at.height_first), load_i64(head + head_at.width_first)
        weights_y, weights_x = load_i64(head + head_at.height_weights), load_i64(head + head_at.width_weights)
        rows, first = view_i32(first_y, height), view_i32(first_x, width)
        left = smaller(first[0], first[width - 1])
        count = (larger(first[0], first[width - 1]) + taps_x - left) * channels
        buffer, buffer_bytes = load_i64(head + head_at.free), (4 * count + 16 + 63) & -64
        row_bytes, out_bytes = record[word.in_width] * channels * in_size, width * channels * out_size
        ring, capacity = load_i64(state + state_at.ring) + left * channels * in_size, load_i64(state + state_at.capacity)
        out = load_i64(load_i64(context + at.outputs) + 8 * sample)
        y = load_i64(state + state_at.next)
        while y < height and rows[y] + taps_y <= made:
            part, place = y % ROWS, rows[y] % capacity
            blend(
                buffer + part * buffer_bytes, ring + place * row_bytes, row_bytes, weights_y + 4 * taps_y * y, taps_y, count,
                capacity - place, capacity * row_bytes,
            )  # fmt: skip
            if part == ROWS - 1 or y == height - 1:
                to = out + (y - part) * out_bytes
                columns(buffer, buffer_bytes, left, channels, first_x, weights_x, taps_x, width, to, out_bytes, part + 1)
            y += 1
        store_i64(state + state_at.next, y)
        return 0

    return take


_to_bytes, _to_floats = _taker("uint8", "uint8"), _taker("uint8", "float32")


@compiled(2)
def take_to_bytes(state, made):
    """See `_taker`."""
    return _to_bytes(state, made)


@compiled(2)
def take_to_floats(state, made):
    """See `_taker`."""
    return _to_floats(state, made)


def read_rows(feed: RowFeed, step: Step, records: np.ndarray, intervals: np.ndarray, sizes: np.ndarray, out_dtype: np.dtype) -> None:
    """Resize the large pictures of a batch row by row while they are decoded; `step` then skips them.

    records, intervals  RESIZE_RECORD[samples], INTERVAL[samples, 3]
    sizes               bytes of each picture of UINT8, int64[samples]
    """
    chosen = feed.able() & (sizes >= SMALLEST)
    if not chosen.any():
        return
    function = (take_to_bytes if out_dtype == np.uint8 else take_to_floats).address
    capacities = np.where(chosen, _capacities(records, intervals), 0)
    step.context[RESIZE.word.fed] = address_of(capacities)
    step.keep = (*step.keep, capacities)
    feed.take(function, step.context, capacities, records[:, word.in_width] * records[:, word.channels], step.scratch_bytes, sizes)


def _capacities(records: np.ndarray, intervals: np.ndarray) -> np.ndarray:
    """Rows that the ring buffer must hold, int64[samples]; 0 if rows are not read downwards, or with nearest-neighbour interpolation."""
    extents, outputs = records[:, (word.in_height, word.in_width)], records[:, (word.out_height, word.out_width)]
    spans = intervals.view(np.float64).reshape(len(records), 3, 2)[:, 1:]
    lengths = spans[:, :, 1] - spans[:, :, 0]
    shrinks = outputs < np.abs(lengths)
    kinds = np.where(shrinks, records[:, [word.min_filter]], records[:, [word.mag_filter]])
    widen = np.where(records[:, [word.antialias]] != 0, np.maximum(np.abs(lengths) / np.maximum(outputs, 1), 1), 1)
    taps = np.ceil(2 * DESCRIPTIONS[kinds, FILTER.word.radius] * widen).astype(np.int64)[:, 0] + 1  # one more for rounding
    capacities = np.minimum(taps, extents[:, 0]) + BAND
    fits = (lengths[:, 0] > 0) & (outputs > 0).all(1) & (extents > 1).all(1) & (kinds != NN).any(1) & (capacities < extents[:, 0])
    return np.where(fits, capacities, 0)
