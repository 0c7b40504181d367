"""Random crops that keep boxes: proposals, their overlap with boxes, and the remaining boxes. All operations are float32."""

from __future__ import annotations

import numpy as np

from ...compiled.intrinsics import larger, load_f32, load_i64, local_array, smaller, store_f32, store_i32, store_i64
from ...compiled.step import compiled, inlined
from ...sampling.random_distributions_kernels import new_stream, up_to
from ...sampling.random_streams_kernels import STREAM_FIELDS, range32
from ...sampling.stream_kernels import open_sample
from ..batches.batch_permutation_kernels import shuffle
from .random_bbox_crop import BBOX_CROP

_U, _F = np.uint64, np.float32
_ZERO, _ONE = _F(0), _F(1)
_ROUNDING = _F(2e-6)
"""Tolerance for boxes outside the image: float32 sums of pixels divided by extents have errors of about 1e-6."""
MOST_ATTEMPTS = 10_000_000
"""Number of proposals after which a sample without its own limit fails."""

_floats = local_array(np.float32, 4)
_ratios = local_array(np.float32, 9)
_ints = local_array(np.int32, 4)

at = BBOX_CROP.at


@compiled(6, brief=True)
def find_corners(rows, count, axes, columns, sized, corners):
    """The low and high corners of boxes, clipped to 0..1. Returns 0, or 1 + the number of the first box that is out of bounds.

    A high corner may be below the low one, as in DALI: such a box overlaps no window.

    int64[2 axes] at `columns` has the places of the low corners and of the high corners (`sized`: of the extents).
    """
    for k in range(count):
        for axis in range(axes):
            low = load_f32(rows + 4 * load_i64(columns + 8 * axis))
            high = load_f32(rows + 4 * load_i64(columns + 8 * (axes + axis)))
            if sized:
                high = _F(low + high)
            most = _F(_ONE + _ROUNDING)
            if not (low >= -_ROUNDING and low <= most and high >= -_ROUNDING and high <= most):  # a NaN is refused, too
                return k + 1
            low = smaller(larger(low, _ZERO), _ONE)
            store_f32(corners + 4 * axis, low)
            store_f32(corners + 4 * (axes + axis), smaller(larger(high, _ZERO), _ONE))
        rows, corners = rows + 8 * axes, corners + 8 * axes
    return 0


@inlined
def _boxes_of(table, i):
    """Indices of a sample's first box, and behind its last box."""
    firsts = load_i64(table + at.firsts)
    return load_i64(firsts + 8 * i), load_i64(firsts + 8 * (i + 1))


@inlined
def _volume(low, high, axes):
    volume = _F(high[0] - low[0])
    for k in range(1, axes):
        volume = _F(volume * _F(high[k] - low[k]))
    return volume


@inlined
def _overlap(low, high, box, axes, iou):
    """The intersection of a window and the box at address `box`, divided by their union or by the box."""
    inside, part = _ONE, _ONE
    for k in range(axes):
        begin, end = load_f32(box + 4 * k), load_f32(box + 4 * (axes + k))
        shared = _F(smaller(high[k], end) - larger(low[k], begin))
        if not smaller(high[k], end) > larger(low[k], begin):
            return _ZERO
        inside = shared if k == 0 else _F(inside * shared)
        part = _F(end - begin) if k == 0 else _F(part * _F(end - begin))
    if not iou:
        return _F(inside / part)
    return _F(inside / _F(_F(_volume(low, high, axes) + part) - inside))


@inlined
def _impose_aspects(extents, axes, ranges, count, stream):
    """Fixed aspect ratios, in a random order of the axes. The draws use a copy of the stream, so its position does not change."""
    ratios, order, copy = _ratios(), _ints(), new_stream()
    for k in range(9):
        ratios[k] = _ZERO
    for k in range(STREAM_FIELDS):
        copy[k] = stream[k]
    pair = 0
    for a in range(axes):
        for b in range(a + 1, axes):
            low, high = load_f32(ranges + 8 * (pair % count)), load_f32(ranges + 8 * (pair % count) + 4)
            if low == high:
                ratios[3 * a + b], ratios[3 * b + a] = low, _F(1.0 / np.float64(low))
            pair += 1
    for k in range(axes):
        order[k] = k
    shuffle(copy, order, axes)
    largest = extents[0]
    for k in range(1, axes):
        largest = larger(largest, extents[k])
    for p in range(axes):
        for q in range(p + 1, axes):
            a, b = order[p], order[q]
            if ratios[3 * b + a] > _ZERO:
                extents[b] = _F(extents[a] * ratios[3 * b + a])
    now = extents[0]
    for k in range(1, axes):
        now = larger(now, extents[k])
    for k in range(axes):
        extents[k] = _F(_F(largest * extents[k]) / now)


@inlined
def _propose(table, i, stream, low, high, window):
    """Draw one proposal: its relative corners, and its output in `window`. False if its aspect ratios are not allowed."""
    axes = load_i64(table + at.axes)
    crop, shape = load_i64(table + at.crop_shapes), load_i64(table + at.input_shapes)
    if crop != 0:
        for k in range(axes):
            size, full = load_i64(crop + 8 * (axes * i + k)), load_i64(shape + 8 * (axes * i + k))
            room = full - size
            begin = smaller(np.int64(0), room)
            start = _F(begin + up_to(stream, abs(room))) if room != 0 else _ZERO
            low[k] = _F(start / _F(full))
            high[k] = _F(_F(_F(size) / _F(full)) + low[k])
            window[k], window[axes + k] = start, _F(_F(size) + start)
        return True
    scaling, ranges, count = load_i64(table + at.scaling), load_i64(table + at.aspects), load_i64(table + at.aspect_count)
    extents, probe = _floats(), _floats()
    fixed = False
    for k in range(count):
        fixed = fixed or load_f32(ranges + 8 * k) == load_f32(ranges + 8 * k + 4)
    for k in range(axes):
        extents[k] = range32(stream, load_f32(scaling), load_f32(scaling + 4))
        probe[k] = extents[k] if shape == 0 else _F(extents[k] * _F(load_i64(shape + 8 * (axes * i + k))))
    if fixed:
        _impose_aspects(probe, axes, ranges, count, stream)
        for k in range(axes):
            extents[k] = probe[k] if shape == 0 else _F(probe[k] / _F(load_i64(shape + 8 * (axes * i + k))))
    pair = 0
    for a in range(axes):
        for b in range(a + 1, axes):
            aspect = _F(probe[a] / probe[b])
            if not load_f32(ranges + 8 * (pair % count)) <= aspect <= load_f32(ranges + 8 * (pair % count) + 4):
                return False
            pair += 1
    for k in range(axes):
        low[k] = range32(stream, _ZERO, _F(_ONE - extents[k]))
        high[k] = _F(low[k] + extents[k])
        window[k], window[axes + k] = low[k], high[k]
    return True


@inlined
def _is_kept(box, low, high, axes, prune):
    if prune != 0:
        part = _overlap(low, high, box, axes, False)
        return part != _ZERO and part >= load_f32(prune)
    for k in range(axes):
        middle = _F(_F(0.5) * _F(load_f32(box + 4 * (axes + k)) + load_f32(box + 4 * k)))
        if not low[k] <= middle < high[k]:
            return False
    return True


@inlined
def _unit(value):
    return smaller(larger(value, _ZERO), _ONE)


@inlined
def _keep(table, i, low, high):
    """Write the boxes that a window keeps, in the window's coordinates; returns their number."""
    axes = load_i64(table + at.axes)
    first, last = _boxes_of(table, i)
    kept = 0
    for k in range(first, last):
        box = load_i64(table + at.boxes) + 8 * axes * k
        if not _is_kept(box, low, high, axes, load_i64(table + at.prune)):
            continue
        out = load_i64(table + at.moved) + 8 * axes * (first + kept)
        for d in range(axes):
            extent = _F(high[d] - low[d])
            begin = _F(_F(larger(low[d], load_f32(box + 4 * d)) - low[d]) / extent)
            end = _F(_F(smaller(high[d], load_f32(box + 4 * (axes + d))) - low[d]) / extent)
            store_f32(out + 4 * d, _unit(begin))
            store_f32(out + 4 * (axes + d), _unit(end))
        store_i32(load_i64(table + at.indices) + 4 * (first + kept), np.int32(k - first))
        kept += 1
    return kept


@inlined
def _keep_all(table, i):
    """No crop: copy all boxes."""
    axes = load_i64(table + at.axes)
    first, last = _boxes_of(table, i)
    for k in range(first, last):
        for d in range(2 * axes):
            place = 4 * (2 * axes * k + d)
            store_f32(load_i64(table + at.moved) + place, load_f32(load_i64(table + at.boxes) + place))
        store_i32(load_i64(table + at.indices) + 4 * k, np.int32(k - first))
    return last - first


@inlined
def _crop_sample(table, i, stream):
    """The window and the boxes of one sample. Returns 1 if no allowed attempt found a window."""
    axes = load_i64(table + at.axes)
    first, last = _boxes_of(table, i)
    thresholds, limit = load_i64(table + at.threshold_count), load_i64(table + at.all_attempts)
    unchanged = load_i64(table + at.no_crop) != 0
    need_all, iou = load_i64(table + at.need_all) != 0, load_i64(table + at.iou) != 0
    low, high, window, found = _floats(), _floats(), _window(), _window()
    for k in range(2 * axes):
        found[k] = _ZERO
    best, attempts, kept, success = _F(-1), 0, 0, False
    while not success and (limit < 0 or attempts < limit):
        if attempts > MOST_ATTEMPTS:
            return 1
        choice = up_to(stream, thresholds - 1 + (1 if unchanged else 0))
        if choice == thresholds:
            for k in range(axes):
                found[k], found[axes + k] = _ZERO, _ONE
            kept = _keep_all(table, i)
            success = True
            break
        threshold = load_f32(load_i64(table + at.thresholds) + 4 * choice)
        for _ in range(load_i64(table + at.attempts)):
            attempts += 1
            if not _propose(table, i, stream, low, high, window):
                continue
            metric, valid = _ZERO, True
            for k in range(first, last):
                part = _overlap(low, high, load_i64(table + at.boxes) + 8 * axes * k, axes, iou)
                metric = part if k == first else smaller(metric, part) if need_all else larger(metric, part)
            valid = first == last or metric >= threshold
            if first != last and metric <= best and not valid:
                continue
            best = metric
            for k in range(2 * axes):
                found[k] = window[k]
            kept = _keep(table, i, low, high)
            success = first == last or (valid and kept > 0)
    if not success:
        settled = load_i64(table + at.settled)
        store_i64(settled, load_i64(settled) + 1)
    for k in range(axes):
        store_f32(load_i64(table + at.anchors) + 4 * (axes * i + k), found[k])
        store_f32(load_i64(table + at.extents) + 4 * (axes * i + k), _F(found[axes + k] - found[k]))
    store_i64(load_i64(table + at.kept) + 8 * i, kept)
    return 0


_window = local_array(np.float32, 8)


@compiled(1)
def draw_crops(table):
    """random_bbox_crop of a batch. Returns 0, or 1 + the first sample for which no window was found."""
    stream = new_stream()
    for i in range(load_i64(table + at.samples)):
        open_sample(stream, table + at.position_key, i)
        if _crop_sample(table, i, stream) != 0:
            return i + 1
    return 0
