"""Compiled step of box_encoder."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...batch import Batch
from ...compiled.intrinsics import load_i64, view_f32, view_i32
from ...compiled.job_tables import THREAD
from ...compiled.step import inlined, step
from ...compiled.vectors import lanes, widest
from ...device.launch import Kernel, Launch, Scratch, grid_of
from ..base import Step, no_explanation
from .box_encoder_tables import BOX_ENCODER, BOX_ENCODER_GPU, ENCODING

_SOURCE = Path(__file__).with_suffix(".cu")
encoder, encoding, record = BOX_ENCODER.at, ENCODING.word, THREAD.at

_LANES = widest() // 4
_f, _i = lanes("float32", _LANES), lanes("int32", _LANES)
_load, _store, _splat, _choose, _larger, _smaller = _f.load, _f.store, _f.splat, _f.choose, _f.larger, _f.smaller
_load_int, _store_int, _splat_int, _choose_int, _size = _i.load, _i.store, _i.splat, _i.choose, _f.bytes


def anchor_columns(anchors: np.ndarray) -> np.ndarray:
    """Anchors float32[n, 4] as the kernel reads them: left, top, right, bottom, area, and the numbers 0, 1 ... as int32.

    float32[6, n rounded up to whole vectors].
    """
    columns = np.zeros((6, -(-len(anchors) // _LANES) * _LANES), np.float32)
    columns[:4, : len(anchors)] = anchors.T
    with np.errstate(all="ignore"):  # anchors may be infinite
        columns[4] = (columns[2] - columns[0]) * (columns[3] - columns[1])
    columns[5].view(np.int32)[:] = np.arange(columns.shape[1])
    return columns


@inlined
def _match(boxes, count, columns, length, anchor_count, criteria, chosen, best_of):
    """Each anchor takes the box that overlaps it most, if the overlap suffices: int32 at `chosen`, -1 for none.

    `best_of`: for each box, the largest overlap of each lane, and the last anchor that has it. Among equal overlaps the last one wins.
    """
    row = 4 * length
    nothing, least, last = _splat(np.float32(0)), _splat(criteria), _splat_int(np.int32(anchor_count))
    for b in range(count):
        _store(best_of + 2 * _size * b, _splat(np.float32(-1)))
        _store_int(best_of + 2 * _size * b + _size, _splat_int(np.int32(0)))
    for a in range(0, 4 * length, _size):
        left_a, top_a, right_a = _load(columns + a), _load(columns + row + a), _load(columns + 2 * row + a)
        bottom_a, area_a, number = _load(columns + 3 * row + a), _load(columns + 4 * row + a), _load_int(columns + 5 * row + a)
        exists, best, taken = number < last, least, _splat_int(np.int32(-1))
        for b in range(count):
            left_b, top_b = _splat(boxes[4 * b]), _splat(boxes[4 * b + 1])
            right_b, bottom_b = _splat(boxes[4 * b + 2]), _splat(boxes[4 * b + 3])
            left, top = _larger(left_b, left_a), _larger(top_b, top_a)
            right, bottom = _smaller(right_b, right_a), _smaller(bottom_b, bottom_a)
            inside = (right - left) * (bottom - top)
            area_b = (right_b - left_b) * (bottom_b - top_b)
            overlap = _choose((right > left) & (bottom > top), inside / (area_b + area_a - inside), nothing)
            better = (overlap > least) & (overlap >= best)
            best, taken = _choose(better, overlap, best), _choose_int(better, _splat_int(np.int32(b)), taken)
            place = best_of + 2 * _size * b
            known = _load(place)
            better = exists & (overlap >= known)
            _store(place, _choose(better, overlap, known))
            _store_int(place + _size, _choose_int(better, number, _load_int(place + _size)))
        _store_int(chosen + a, taken)


@inlined
def _winner(place):
    """The last anchor of those that overlap a box most; see :func:`_match`."""
    overlaps, numbers = view_f32(place, _LANES), view_i32(place + _size, _LANES)
    best, winner = overlaps[0], numbers[0]
    for lane in range(1, _LANES):
        if overlaps[lane] > best or (overlaps[lane] == best and numbers[lane] > winner):
            best, winner = overlaps[lane], numbers[lane]
    return winner


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
    length = load_i64(context + encoder.columns_length)
    chosen, anchor = view_i32(at, anchor_count), view_f32(at + 4 * length, 4)
    # Each anchor takes the box that overlaps it most, if the overlap suffices; then each box takes its best anchor. The last of equal
    # overlaps wins, as in DALI: equal boxes, and anchors of one size around a small box, are common.
    best_of = at + 4 * length + 64
    _match(boxes, count, load_i64(context + encoder.columns), length, anchor_count, criteria, at, best_of)
    for b in range(count):
        if anchor_count > 0:
            chosen[_winner(best_of + 2 * _size * b)] = b
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


class Anchors(NamedTuple):
    """The anchors, float32[n, 4], the same as :func:`anchor_columns`, and the numbers of the encoding (an ENCODING)."""

    anchors: np.ndarray
    columns: np.ndarray
    numbers: np.ndarray


def make_box_encoder_step(boxes: Batch, labels: Batch, encoded: Batch, classes: Batch, given: Anchors, offsets: bool) -> Step:
    """The step for a batch."""
    anchors, columns, numbers = given
    counts = np.ascontiguousarray(boxes.shapes[:, 0], np.int64)
    values = {
        "boxes": boxes.addresses, "labels": labels.addresses, "encoded": encoded.addresses, "classes": classes.addresses,
        "counts": counts, "anchors": anchors, "anchor_count": len(anchors), "numbers": numbers, "offsets": offsets,
        "columns": columns, "columns_length": columns.shape[1], "scratch": 0,
    }  # fmt: skip
    table, keep = BOX_ENCODER.make(**values)

    def launches() -> list[Launch]:
        ends = np.cumsum(counts)
        winners = Scratch(4 * max(1, int(counts.sum())))
        context = BOX_ENCODER_GPU.entries(**values, winners=winners, starts=ends - counts, samples=len(counts))
        items = (("winners", int(counts.max(initial=0))), ("encode", len(anchors)))
        return [Launch(Kernel(_SOURCE, name), context, grid_of(most, len(counts))) for name, most in items]

    scratch = 4 * columns.shape[1] + 64 + 2 * _size * int(counts.max(initial=0))
    return Step(box_encoder_step.address, table, no_explanation, scratch, BOX_ENCODER.word.scratch, keep, launches=launches)
