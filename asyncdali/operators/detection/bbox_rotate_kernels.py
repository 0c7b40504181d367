"""Boxes in a rotated image: a whole batch in one call, in float64."""

from __future__ import annotations

from ...compiled.intrinsics import load_f32, load_f64, load_i32, load_i64, local_array, store_f32, store_i32, store_i64
from ...compiled.step import compiled, inlined
from .bbox_rotate import BBOX_ROTATE, MODES

at = BBOX_ROTATE.at
_EXPAND, _FIXED = MODES.index("expand"), MODES.index("fixed")
_TIE = 1e-5
"""Differences of extents, in pixels, that are treated as 0."""
_pair = local_array("float64", 2)


@inlined
def _within(value, limit):
    """`value` clamped to 0..`limit`; NaN is kept."""
    return 0.0 if value < 0.0 else limit if value > limit else value


@inlined
def _extents(half, turned_x, turned_y, mode, made):
    """Write half extents of the new box to `made`; the vectors `turned` are rows of the rotation.

    `half` is negative along an axis on which the box ends before it begins. Such a box stays reversed, unless it is enclosed.
    """
    for k in range(2):
        turned = turned_x if k == 0 else turned_y
        made[k] = abs(turned[0] * half[0]) + abs(turned[1] * half[1])
    if mode != _EXPAND:
        # The old box's longer side becomes the longer extent of the enclosing box. If the enclosing box is square, that is the width.
        lies = made[0] - made[1] > -_TIE
        swapped = (half[0] > half[1]) != lies
        for k in range(2):
            kept = half[1 - k] if swapped else half[k]
            made[k] = kept if mode == _FIXED else (kept + made[k]) / 2


@compiled(1, brief=True)
def move_boxes(table):
    """Move the boxes of a batch; `table` is a BBOX_ROTATE."""
    relative, corners, mode = load_i64(table + at.relative), load_i64(table + at.corners), load_i64(table + at.mode)
    least, labels = load_f64(load_i64(table + at.least)), load_i64(table + at.labels)
    low, high, half, around, turned_x, turned_y = _pair(), _pair(), _pair(), _pair(), _pair(), _pair()
    begin, end = _pair(), _pair()
    for i in range(load_i64(table + at.samples)):
        source = load_i64(load_i64(table + at.inputs) + 8 * i)
        firsts = load_i64(table + at.firsts)
        first, behind = load_i64(firsts + 8 * i), load_i64(firsts + 8 * (i + 1))
        rotation = load_i64(table + at.rotations) + i * load_i64(table + at.rotation_step)
        # The matrix maps steps on the canvas to steps in the image. Its transpose is the inverse.
        turned_x[0], turned_y[0] = load_f64(rotation), load_f64(rotation + 8)
        turned_x[1], turned_y[1] = load_f64(rotation + 16), load_f64(rotation + 24)
        sizes = i * load_i64(table + at.size_step)
        image, canvas = load_i64(table + at.images) + sizes, load_i64(table + at.canvases) + sizes
        out = first
        for k in range(behind - first):
            box = source + 16 * k
            for axis in range(2):
                low[axis], high[axis] = load_f32(box + 4 * axis), load_f32(box + 8 + 4 * axis)
                if corners == 0:
                    high[axis] += low[axis]
                extent = load_i64(image + 8 * axis)
                if relative != 0:
                    low[axis] *= extent
                    high[axis] *= extent
                half[axis] = (high[axis] - low[axis]) / 2
                low[axis] = (low[axis] + high[axis] - extent) / 2  # `low` holds the box's centre from here on
            _extents(half, turned_x, turned_y, mode, around)
            area = 1.0
            for axis in range(2):
                turned, limit = turned_x if axis == 0 else turned_y, float(load_i64(canvas + 8 * axis))
                centre = turned[0] * low[0] + turned[1] * low[1] + limit / 2
                begin[axis], end[axis] = _within(centre - around[axis], limit), _within(centre + around[axis], limit)
                area *= end[axis] - begin[axis]
            if area / (4 * (around[0] * around[1])) >= least:  # False for NaN: the box has no area.
                target = load_i64(table + at.boxes) + 16 * out
                for axis in range(2):
                    if relative != 0:
                        begin[axis] /= load_i64(canvas + 8 * axis)
                        end[axis] /= load_i64(canvas + 8 * axis)
                    store_f32(target + 4 * axis, begin[axis])
                    store_f32(target + 8 + 4 * axis, end[axis] if corners != 0 else end[axis] - begin[axis])
                if labels != 0:
                    store_i32(load_i64(table + at.new_labels) + 4 * out, load_i32(load_i64(labels + 8 * i) + 4 * k))
                out += 1
        store_i64(load_i64(table + at.kept) + 8 * i, out - first)
    return 0
