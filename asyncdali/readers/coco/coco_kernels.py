"""Gathers the rows of annotations. Draws masks by the rules of the COCO tools: polygons on a grid five times as fine, columns first."""

from __future__ import annotations

import math

import numpy as np

from ...compiled.intrinsics import copy_bytes, load_i64, load_u8, store_i32, store_i64, store_u8, view_f32
from ...compiled.job_tables import THREAD
from ...compiled.step import compiled, inlined, step
from .coco_tables import DRAW_MASKS, DRAWING, LIMITS, POLYGON

at, shape, limit, record = DRAW_MASKS.at, DRAWING.at, LIMITS.at, THREAD.at

TOO_LONG = (1 << 20) + 1
"""Status: a polygon's outline is too long."""



@compiled(7, brief=True)
def lay_out_rows(counts, indices, samples, shapes, axes, row_bytes, places):
    """Write the first extent of each sample's `shapes` (int64[samples, axes]) and its offset (int64[samples] at `places`). Returns the
    bytes of all rows. `counts`: rows of each image."""
    total = 0
    for i in range(samples):
        count = load_i64(counts + 8 * load_i64(indices + 8 * i))
        store_i64(shapes + 8 * axes * i, count)
        store_i64(places + 8 * i, total)
        total += count * row_bytes
    return total


@compiled(8)
def gather_rows(rows, starts, counts, indices, samples, row_bytes, places, base):
    """Copy the rows of each sample to its offset from `base`, and make the offset an address."""
    for i in range(samples):
        image, place = 8 * load_i64(indices + 8 * i), places + 8 * i
        target = base + load_i64(place)
        store_i64(place, target)
        copy_bytes(target, rows + load_i64(starts + image) * row_bytes, load_i64(counts + image) * row_bytes)
    return 0


_SCALE = 5.0
_LONGEST = 1 << 26
_FARTHEST = 1 << 24


@inlined
def _fine(value):
    """A coordinate on the fine grid. As int() of a C compiler, it drops the fraction."""
    return np.int64(_SCALE * np.float64(value) + 0.5)


@inlined
def _toggle(u, v, before_u, before_v, height, width, marks, limits):
    """The outline moves to another fine column: mark the pixel at which its column changes between inside and outside."""
    x = (np.float64(min(u, before_u) if u < before_u else u - 1) + 0.5) / _SCALE - 0.5
    if math.floor(x) != x or x < 0 or x > width - 1:
        return
    y = (np.float64(min(v, before_v)) + 0.5) / _SCALE - 0.5
    pixel = np.int64(x) * height + np.int64(math.ceil(min(max(y, 0.0), np.float64(height))))
    store_u8(marks + pixel, load_u8(marks + pixel) ^ 1)
    store_i64(limits + limit.low, min(load_i64(limits + limit.low), pixel))
    store_i64(limits + limit.high, max(load_i64(limits + limit.high), pixel))


@inlined
def _outline(points, count, height, width, marks, limits):
    """Walk the outline of a closed polygon; a status."""
    before_u, before_v, first = np.int64(0), np.int64(0), True
    for j in range(count):
        k = j + 1 if j + 1 < count else 0
        xs, ys, xe, ye = _fine(points[2 * j]), _fine(points[2 * j + 1]), _fine(points[2 * k]), _fine(points[2 * k + 1])
        dx, dy = abs(xe - xs), abs(ye - ys)
        steep = dx < dy
        flip = ys > ye if steep else xs > xe
        if flip:
            xs, xe = xe, xs
            ys, ye = ye, ys
        length = dy if steep else dx
        slope = 0.0
        if length > 0:
            slope = np.float64(xe - xs) / length if steep else np.float64(ye - ys) / length
        for d in range(length + 1):
            t = length - d if flip else d
            if steep:
                u, v = np.int64(xs + slope * t + 0.5), t + ys
            else:
                u, v = t + xs, np.int64(ys + slope * t + 0.5)
            if not first and u != before_u:
                _toggle(u, v, before_u, before_v, height, width, marks, limits)
            before_u, before_v, first = u, v, False


@inlined
def _too_long(points, count):
    """Whether the outline is too long to be traversed. (Coordinates far outside would also overflow.)"""
    total = 0.0
    for j in range(count):
        k = j + 1 if j + 1 < count else 0
        if abs(points[2 * j]) > _FARTHEST or abs(points[2 * j + 1]) > _FARTHEST:
            return True
        total += _SCALE * max(abs(points[2 * k] - points[2 * j]), abs(points[2 * k + 1] - points[2 * j + 1])) + 1
    return total > _LONGEST


@inlined
def _paint(start, end, height, width, label, target):
    """Fill pixels start..end-1, counted along columns, in a mask stored by rows."""
    if start >= end:
        return
    x, y = start // height, start % height
    for _ in range(end - start):
        store_i32(target + 4 * (y * width + x), label)
        y += 1
        if y == height:
            y = 0
            x += 1


@inlined
def _polygon(points, count, height, width, label, target, marks, limits):
    store_i64(limits + limit.low, height * width)
    store_i64(limits + limit.high, -1)
    _outline(points, count, height, width, marks, limits)
    inside, start = False, np.int64(0)
    for pixel in range(load_i64(limits + limit.low), load_i64(limits + limit.high) + 1):
        if load_u8(marks + pixel) != 0:
            store_u8(marks + pixel, 0)
            if inside:
                _paint(start, pixel, height, width, label, target)
            inside = not inside
            start = np.int64(pixel)
    if inside:
        _paint(start, height * width, height, width, label, target)


@step
def draw_masks(context, sample, thread):
    """Draw the mask of one sample. Status: TOO_LONG."""
    target = load_i64(load_i64(context + at.targets) + 8 * sample)
    height, width = load_i64(load_i64(context + at.heights) + 8 * sample), load_i64(load_i64(context + at.widths) + 8 * sample)
    for k in range(height * width):
        store_i32(target + 4 * k, 0)
    if height * width == 0:
        return 0
    limits = load_i64(thread + record.scratch) + load_i64(context + at.scratch)
    marks = limits + limit.size
    for k in range(height * width + 1):
        store_u8(marks + k, 0)
    row = load_i64(context + at.drawings) + shape.size * load_i64(load_i64(context + at.firsts) + 8 * sample)
    for _ in range(load_i64(load_i64(context + at.counts) + 8 * sample)):
        label, first, end = load_i64(row + shape.label), load_i64(row + shape.first), load_i64(row + shape.end)
        if load_i64(row + shape.kind) == POLYGON:
            points = view_f32(load_i64(context + at.vertices) + 8 * first, 2 * (end - first))
            if _too_long(points, end - first):
                return TOO_LONG
            _polygon(points, end - first, height, width, label, target, marks, limits)
        else:
            begin = np.int64(0)
            for r in range(first, end):
                stop = begin + load_i64(load_i64(context + at.runs) + 8 * r)
                if (r - first) & 1:
                    _paint(begin, stop, height, width, label, target)
                begin = stop
        row += shape.size
    return 0
