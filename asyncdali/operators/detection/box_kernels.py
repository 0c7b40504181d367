"""Compiled steps that work on boxes."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...batch import Batch
from ...compiled.intrinsics import larger, load_i64, smaller, view_f32, view_i32
from ...compiled.job_tables import THREAD
from ...compiled.step import inlined, step
from ...device.launch import Kernel, Launch, Scratch, grid_of
from ..base import Step, no_explanation
from .box_tables import BOX_ENCODER, BOX_ENCODER_GPU, BOX_PASTE, ENCODING, PLACEMENT

_SOURCE = Path(__file__).with_suffix(".cu")
paste, placement, encoder, encoding, record = BOX_PASTE.at, PLACEMENT.word, BOX_ENCODER.at, ENCODING.word, THREAD.at


@step
def box_paste_step(context, sample, thread):
    """The boxes of a sample, moved to the image's place on its canvas."""
    count = load_i64(load_i64(context + paste.boxes) + 8 * sample)
    source = view_f32(load_i64(load_i64(context + paste.inputs) + 8 * sample), 4 * count)
    out = view_f32(load_i64(load_i64(context + paste.outputs) + 8 * sample), 4 * count)
    values = view_f32(load_i64(context + paste.placements) + 4 * placement.words * sample, placement.words)
    scale, x, y = values[placement.scale], values[placement.shift_x], values[placement.shift_y]
    corners = load_i64(context + paste.corners) != 0
    for k in range(count):
        out[4 * k] = source[4 * k] * scale + x
        out[4 * k + 1] = source[4 * k + 1] * scale + y
        out[4 * k + 2] = source[4 * k + 2] * scale + (x if corners else np.float32(0))
        out[4 * k + 3] = source[4 * k + 3] * scale + (y if corners else np.float32(0))
    return 0


def make_box_paste_step(source: Batch, output: Batch, counts: np.ndarray, rows: np.ndarray, ltrb: bool) -> Step:
    """The step for a batch of `counts` boxes each; `rows` are PLACEMENTs."""
    table, keep = BOX_PASTE.make(
        inputs=source.addresses, outputs=output.addresses, boxes=np.ascontiguousarray(counts, np.int64),
        placements=np.ascontiguousarray(rows, np.float32), corners=ltrb,
    )  # fmt: skip
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
def _offsets(out, at, anchor, numbers):
    """The box at `out[at]` relative to the `anchor`, both centred."""
    scale = numbers[encoding.scale]
    for k in range(2):
        value = (out[at + k] * scale - anchor[k] * scale) / (anchor[2 + k] * scale)
        out[at + k] = (value - numbers[encoding.mean_x + k]) / numbers[encoding.std_x + k]
    for k in range(2, 4):
        value = np.float32(np.log((out[at + k] * scale) / (anchor[k] * scale)))
        out[at + k] = (value - numbers[encoding.mean_x + k]) / numbers[encoding.std_x + k]


@step
def box_encoder_step(context, sample, thread):
    """The boxes and labels of a sample, assigned to anchors."""
    count, anchor_count = load_i64(load_i64(context + encoder.counts) + 8 * sample), load_i64(context + encoder.anchor_count)
    boxes = view_f32(load_i64(load_i64(context + encoder.boxes) + 8 * sample), 4 * count)
    labels = view_i32(load_i64(load_i64(context + encoder.labels) + 8 * sample), count)
    out = view_f32(load_i64(load_i64(context + encoder.encoded) + 8 * sample), 4 * anchor_count)
    classes = view_i32(load_i64(load_i64(context + encoder.classes) + 8 * sample), anchor_count)
    anchors = view_f32(load_i64(context + encoder.anchors), 4 * anchor_count)
    numbers = view_f32(load_i64(context + encoder.numbers), encoding.words)
    criteria = numbers[encoding.criteria]
    at = load_i64(thread + record.scratch) + load_i64(context + encoder.scratch)
    chosen, anchor = view_i32(at, anchor_count), view_f32(at + ((4 * anchor_count + 63) & -64), 4)
    # Each anchor takes the box that overlaps it most, if the overlap suffices; then each box takes its best anchor. The last of equal
    # overlaps wins, as in DALI: equal boxes, and anchors of one size around a small box, are common.
    for a in range(anchor_count):
        best, chosen[a] = criteria, -1
        for b in range(count):
            overlap = _iou(boxes, b, anchors, a)
            if overlap > criteria and overlap >= best:
                best, chosen[a] = overlap, b
    for b in range(count):
        best, winner = np.float32(-1), 0
        for a in range(anchor_count):
            overlap = _iou(boxes, b, anchors, a)
            if overlap >= best:
                best, winner = overlap, a
        if anchor_count > 0:
            chosen[winner] = b
    offsets = load_i64(context + encoder.offsets) != 0
    for a in range(anchor_count):
        b = chosen[a]
        classes[a] = labels[b] if b >= 0 else 0
        if b >= 0:
            _centred(boxes, b, out, 4 * a)
            if offsets:
                _centred(anchors, a, anchor, 0)
                _offsets(out, 4 * a, anchor, numbers)
        elif offsets:
            for k in range(4):
                out[4 * a + k] = np.float32(0)
        else:
            _centred(anchors, a, out, 4 * a)
    return 0


def make_box_encoder_step(
    boxes: Batch, labels: Batch, encoded: Batch, classes: Batch, anchors: np.ndarray, numbers: np.ndarray, offsets: bool
) -> Step:
    """The step for a batch; `numbers` is an ENCODING."""
    counts = np.ascontiguousarray(boxes.shapes[:, 0], np.int64)
    values = {
        "boxes": boxes.addresses, "labels": labels.addresses, "encoded": encoded.addresses, "classes": classes.addresses,
        "counts": counts, "anchors": anchors, "anchor_count": len(anchors), "numbers": numbers, "offsets": offsets, "scratch": 0,
    }  # fmt: skip
    table, keep = BOX_ENCODER.make(**values)

    def launches() -> list[Launch]:
        ends = np.cumsum(counts)
        winners = Scratch(4 * max(1, int(counts.sum())))
        context = BOX_ENCODER_GPU.entries(**values, winners=winners, starts=ends - counts, samples=len(counts))
        items = (("winners", int(counts.max(initial=0))), ("encode", len(anchors)))
        return [Launch(Kernel(_SOURCE, name), context, grid_of(most, len(counts))) for name, most in items]

    return Step(box_encoder_step.address, table, no_explanation, 4 * len(anchors) + 192, BOX_ENCODER.word.scratch, keep, launches=launches)
