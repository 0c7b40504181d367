"""The crop of single-shot detectors: windows are drawn until one overlaps all boxes enough. Numbers are rounded as the draws are:
float32, except for the window's corners."""

from __future__ import annotations

import numpy as np

from ...compiled.intrinsics import copy_bytes, larger, load_f32, load_i32, load_i64, local_array, smaller, store_f32, store_i32, store_i64
from ...compiled.shape_tables import HWC
from ...compiled.step import compiled, inlined
from ...sampling.random_distributions_kernels import new_stream, up_to
from ...sampling.random_streams_kernels import range32
from ...sampling.stream_kernels import open_sample
from .ssd_random_crop import SSD_CROP

_U, _F = np.uint64, np.float32
_UNCHANGED = 6
"""The choice not to crop. Smaller choices are least overlaps."""

_corners = local_array(np.float64, 4)

at, hwc = SSD_CROP.at, HWC.at


@inlined
def _least_overlap(choice):
    return _F(-1) if choice == 0 else _F(0.1) if choice == 1 else _F(0.3) if choice == 2 else _F(0.5) if choice == 3 else (
        _F(0.7) if choice == 4 else _F(0.9)
    )  # fmt: skip


@inlined
def _propose(stream, window):
    """Draw a window into float64[4]. False if it is too narrow or too flat; then no place is drawn."""
    width, height = range32(stream, _F(0.3), _F(1)), range32(stream, _F(0.3), _F(1))
    shape = _F(width / height)
    if shape < _F(0.5) or shape > _F(2):
        return False
    window[0] = np.float64(range32(stream, _F(0), _F(1.0 - np.float64(width))))
    window[1] = np.float64(range32(stream, _F(0), _F(1.0 - np.float64(height))))
    window[2], window[3] = window[0] + np.float64(width), window[1] + np.float64(height)
    return True


@inlined
def _overlaps(window, box, least):
    """Whether the intersection over union is at least `least`."""
    left, top, right, bottom = load_f32(box), load_f32(box + 4), load_f32(box + 8), load_f32(box + 12)
    begin_x, begin_y, end_x, end_y = _F(window[0]), _F(window[1]), _F(window[2]), _F(window[3])
    shared_x = larger(_F(0), _F(smaller(right, end_x) - larger(left, begin_x)))
    shared_y = larger(_F(0), _F(smaller(bottom, end_y) - larger(top, begin_y)))
    shared = _F(shared_x * shared_y)
    both = _F(_F(_F(bottom - top) * _F(right - left)) + _F(_F(end_y - begin_y) * _F(end_x - begin_x)))
    return not _F(shared / _F(both - shared)) < least


@inlined
def _keep(window, boxes, count, indices):
    """Write the indices of the boxes whose centre is in the window; returns their number."""
    kept = 0
    for k in range(count):
        box = boxes + 16 * k
        x = 0.5 * np.float64(_F(load_f32(box) + load_f32(box + 8)))
        y = 0.5 * np.float64(_F(load_f32(box + 4) + load_f32(box + 12)))
        if window[0] <= x <= window[2] and window[1] <= y <= window[3]:
            store_i32(indices + 4 * kept, np.int32(k))
            kept += 1
    return kept


@inlined
def _search(stream, window, boxes, count, attempts, indices):
    """Draw until a window is found, and return its number of boxes; -1 if "no crop" is drawn."""
    while True:
        choice = up_to(stream, _UNCHANGED)
        if choice == _UNCHANGED:
            return -1
        for _ in range(attempts):
            if not _propose(stream, window):
                continue
            enough = True
            for k in range(count):
                enough = enough and _overlaps(window, boxes + 16 * k, _least_overlap(choice))
            kept = _keep(window, boxes, count, indices) if enough else 0
            if kept > 0:
                return kept


@inlined
def _move(window, boxes, indices, kept, moved):
    """Write the boxes that are left, clipped to the window and relative to it."""
    for axis in range(2):
        low, high = _F(window[axis]), _F(window[2 + axis])
        extent = _F(high - low)
        for k in range(kept):
            box = boxes + 16 * load_i32(indices + 4 * k) + 4 * axis
            # A box whose right is left of its left, or below whose top is its bottom, may leave the window on the other side.
            begin = _F(_F(larger(load_f32(box), low) - low) / extent)
            end = _F(_F(smaller(load_f32(box + 8), high) - low) / extent)
            store_f32(moved + 16 * k + 4 * axis, smaller(larger(begin, _F(0)), _F(1)))
            store_f32(moved + 16 * k + 4 * axis + 8, smaller(larger(end, _F(0)), _F(1)))


@inlined
def _place(table, i, window):
    """Write shape and offset of a window, in pixels."""
    image = load_i64(table + at.images) + hwc.size * i
    height, width, channels = load_i64(image + hwc.height), load_i64(image + hwc.width), load_i64(image + hwc.channels)
    left, right = np.int64(np.floor(window[0] * width + 0.5)), np.int64(np.floor(window[2] * width + 0.5))
    top, bottom = np.int64(np.floor(window[1] * height + 0.5)), np.int64(np.floor(window[3] * height + 0.5))
    shape = load_i64(table + at.shapes) + hwc.size * i
    store_i64(shape + hwc.height, bottom - top)
    store_i64(shape + hwc.width, right - left)
    store_i64(shape + hwc.channels, channels)
    store_i64(load_i64(table + at.offsets) + 8 * i, (top * width + left) * channels * load_i64(table + at.itemsize))


@compiled(1)
def draw_ssd_crops(table):
    """ssd_random_crop of a batch."""
    stream, window = new_stream(), _corners()
    for i in range(load_i64(table + at.samples)):
        open_sample(stream, table + at.position_key, i)
        first = load_i64(load_i64(table + at.firsts) + 8 * i)
        count = load_i64(load_i64(table + at.firsts) + 8 * i + 8) - first
        boxes, moved = load_i64(table + at.boxes) + 16 * first, load_i64(table + at.moved) + 16 * first
        indices = load_i64(table + at.indices) + 4 * first
        kept = _search(stream, window, boxes, count, load_i64(table + at.attempts), indices)
        if kept >= 0:
            _move(window, boxes, indices, kept, moved)
        else:
            window[0] = window[1] = 0.0
            window[2] = window[3] = 1.0
            kept = count
            copy_bytes(moved, boxes, 16 * count)
            for k in range(count):
                store_i32(indices + 4 * k, np.int32(k))
        _place(table, i, window)
        store_i64(load_i64(table + at.kept) + 8 * i, kept)
    return 0
