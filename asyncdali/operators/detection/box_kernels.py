"""Compiled steps that work on boxes."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...batch import Batch
from ...compiled.intrinsics import larger, load_f32, load_i64, smaller, view_f32, view_i32
from ...compiled.step import inlined, step
from ...device.launch import Kernel, Launch, Scratch, grid_of
from ..base import Step, context_table, no_explanation

_SOURCE = Path(__file__).with_suffix(".cu")


@step
def box_paste_step(context, sample, thread):
    """Context: 0 input addresses, 1 output addresses, 2 boxes int64[samples], 3 (scale, shift x, shift y) float32[samples, 3], 4 ltrb."""
    count = load_i64(load_i64(context + 16) + 8 * sample)
    source = view_f32(load_i64(load_i64(context) + 8 * sample), 4 * count)
    out = view_f32(load_i64(load_i64(context + 8) + 8 * sample), 4 * count)
    values = load_i64(context + 24) + 12 * sample
    scale, x, y = load_f32(values), load_f32(values + 4), load_f32(values + 8)
    corners = load_i64(context + 32) != 0
    for k in range(count):
        out[4 * k] = source[4 * k] * scale + x
        out[4 * k + 1] = source[4 * k + 1] * scale + y
        out[4 * k + 2] = source[4 * k + 2] * scale + (x if corners else np.float32(0))
        out[4 * k + 3] = source[4 * k + 3] * scale + (y if corners else np.float32(0))
    return 0


def make_box_paste_step(source: Batch, output: Batch, counts: np.ndarray, rows: np.ndarray, ltrb: bool) -> Step:
    """The step for a batch of `counts` boxes each; rows float32[samples, 3] (scale, shift x, shift y)."""
    rows = np.ascontiguousarray(rows, np.float32)
    table, keep = context_table((source.addresses, output.addresses, np.ascontiguousarray(counts, np.int64), rows, ltrb))
    return Step(box_paste_step.address, table, no_explanation, keep=keep)


@inlined
def _iou(boxes, b, anchors, a):
    """Intersection over union of box b and anchor a (left, top, right, bottom), float32."""
    left, top = larger(boxes[4 * b], anchors[4 * a]), larger(boxes[4 * b + 1], anchors[4 * a + 1])
    right, bottom = smaller(boxes[4 * b + 2], anchors[4 * a + 2]), smaller(boxes[4 * b + 3], anchors[4 * a + 3])
    if not (right > left and bottom > top):
        return np.float32(0)
    inside = (right - left) * (bottom - top)
    box = (boxes[4 * b + 2] - boxes[4 * b]) * (boxes[4 * b + 3] - boxes[4 * b + 1])
    anchor = (anchors[4 * a + 2] - anchors[4 * a]) * (anchors[4 * a + 3] - anchors[4 * a + 1])
    return np.float32(inside / (box + anchor - inside))


@inlined
def _centred(boxes, b, out, at):
    """Box b as (centre x, centre y, width, height) at `out[at]`."""
    out[at] = np.float32(0.5) * (boxes[4 * b] + boxes[4 * b + 2])
    out[at + 1] = np.float32(0.5) * (boxes[4 * b + 1] + boxes[4 * b + 3])
    out[at + 2] = boxes[4 * b + 2] - boxes[4 * b]
    out[at + 3] = boxes[4 * b + 3] - boxes[4 * b + 1]


@inlined
def _offsets(out, at, numbers):
    """What is at `out[at]`, box and anchor centred, relative to the anchor at `numbers[9:]`; scale, means, stds are `numbers[:9]`."""
    scale = numbers[0]
    for k in range(2):
        value = (out[at + k] * scale - numbers[9 + k] * scale) / (numbers[11 + k] * scale)
        out[at + k] = (value - numbers[1 + k]) / numbers[5 + k]
    for k in range(2, 4):
        value = np.float32(np.log((out[at + k] * scale) / (numbers[9 + k] * scale)))
        out[at + k] = (value - numbers[1 + k]) / numbers[5 + k]


@step
def box_encoder_step(context, sample, thread):
    """Context: 0 box addresses, 1 label addresses, 2 output box addresses, 3 output label addresses, 4 boxes int64[samples], 5 anchors
    float32[count, 4], 6 their number, 7 float32[10]: scale, means, stds, criteria, 8 whether offsets are wanted, 9 scratch offset."""
    count, anchor_count = load_i64(load_i64(context + 32) + 8 * sample), load_i64(context + 48)
    boxes = view_f32(load_i64(load_i64(context) + 8 * sample), 4 * count)
    labels = view_i32(load_i64(load_i64(context + 8) + 8 * sample), count)
    out = view_f32(load_i64(load_i64(context + 16) + 8 * sample), 4 * anchor_count)
    classes = view_i32(load_i64(load_i64(context + 24) + 8 * sample), anchor_count)
    anchors, numbers = view_f32(load_i64(context + 40), 4 * anchor_count), view_f32(load_i64(context + 56), 10)
    at = load_i64(thread) + load_i64(context + 72)
    chosen, local = view_i32(at, anchor_count), view_f32(at + ((4 * anchor_count + 63) & -64), 13)
    for k in range(9):
        local[k] = numbers[k]
    # Each anchor takes the box that overlaps it most, if that is enough; then each box takes its best anchor. The last of equal
    # overlaps wins, as in DALI: equal boxes, and anchors of one size around a small box, are common.
    for a in range(anchor_count):
        best, chosen[a] = numbers[9], -1
        for b in range(count):
            overlap = _iou(boxes, b, anchors, a)
            if overlap > numbers[9] and overlap >= best:
                best, chosen[a] = overlap, b
    for b in range(count):
        best, winner = np.float32(-1), 0
        for a in range(anchor_count):
            overlap = _iou(boxes, b, anchors, a)
            if overlap >= best:
                best, winner = overlap, a
        if anchor_count > 0:
            chosen[winner] = b
    offsets = load_i64(context + 64) != 0
    for a in range(anchor_count):
        b = chosen[a]
        classes[a] = labels[b] if b >= 0 else 0
        if b >= 0:
            _centred(boxes, b, out, 4 * a)
            if offsets:
                _centred(anchors, a, local, 9)
                _offsets(out, 4 * a, local)
        elif offsets:
            for k in range(4):
                out[4 * a + k] = np.float32(0)
        else:
            _centred(anchors, a, out, 4 * a)
    return 0


def make_box_encoder_step(
    boxes: Batch, labels: Batch, encoded: Batch, classes: Batch, anchors: np.ndarray, numbers: np.ndarray, offsets: bool
) -> Step:
    """The step for a batch; see the step."""
    counts = np.ascontiguousarray(boxes.shapes[:, 0], np.int64)
    values = (boxes.addresses, labels.addresses, encoded.addresses, classes.addresses, counts, anchors, len(anchors), numbers, offsets)
    table, keep = context_table((*values, 0))

    def launches() -> list[Launch]:
        ends = np.cumsum(counts)
        context = (*values, Scratch(4 * max(1, int(counts.sum()))), ends - counts, len(counts))
        items = (("winners", int(counts.max(initial=0))), ("encode", len(anchors)))
        return [Launch(Kernel(_SOURCE, name), context, grid_of(most, len(counts))) for name, most in items]

    return Step(box_encoder_step.address, table, no_explanation, 4 * len(anchors) + 192, 9, keep, launches=launches)
