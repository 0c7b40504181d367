"""Planning of moves on a GPU: axes adjacent in memory are merged once per sample, not once per element."""

from __future__ import annotations

from ...compiled.intrinsics import larger, load_i64, store_i64, view_i64
from ...compiled.step import compiled
from .pieces_kernels import collapse
from .pieces_tables import MOVE_HEAD, MOVING, PIECE_HEAD

at, head, move = MOVING.at, PIECE_HEAD.at, MOVE_HEAD.at
_HEAD, _MOVE_HEAD = PIECE_HEAD.words, MOVE_HEAD.words


@compiled(1, brief=True)
def plan_moves(table):
    """Records of MOVE for one piece of a batch (see MOVING)."""
    samples, pieces, axes = load_i64(table + at.samples), load_i64(table + at.pieces), load_i64(table + at.axes)
    in_size, out_size = load_i64(table + at.in_size), load_i64(table + at.out_size)
    number = load_i64(table + at.number)
    words = _HEAD + 3 * axes
    most, runs, fills, dense, elements, width = 1, 1, 1, 1, 0, 0
    for i in range(samples):  # The records are changed in place; the compiled step does not need them if a GPU moves the data.
        record = load_i64(table + at.records) + 8 * words * (pieces * i + number)
        along = record + 8 * _HEAD
        extents, strides, targets = view_i64(along, axes), view_i64(along + 8 * axes, axes), view_i64(along + 16 * axes, axes)
        left = collapse(extents, strides, targets)
        if left < 0:
            extents[0] = 0
            continue
        for k in range(left, axes):
            extents[k] = 1
        most = larger(most, left)
        if left == 0:
            elements, width = larger(elements, 1), larger(width, 1)
            continue
        count, stride = 1, out_size
        for k in range(left - 1, -1, -1):
            if targets[k] != stride:
                dense = 0
            stride *= extents[k]
            count *= extents[k]
        if strides[left - 1] != in_size or targets[left - 1] != out_size:
            runs = 0
        if strides[left - 1] != 0 or targets[left - 1] != out_size:
            fills = 0
        elements, width = larger(elements, count), larger(width, extents[left - 1])
    made = load_i64(table + at.moves)
    unit = in_size if runs != 0 else 0  # The stride that an axis of extent 1 gets.
    for i in range(samples):
        record = load_i64(table + at.records) + 8 * words * (pieces * i + number)
        along = record + 8 * _HEAD
        extents, strides, targets = view_i64(along, axes), view_i64(along + 8 * axes, axes), view_i64(along + 16 * axes, axes)
        to = made + 8 * (_MOVE_HEAD + 3 * most) * i
        store_i64(to + move.source, load_i64(record + head.offset))
        store_i64(to + move.target, load_i64(record + head.target_offset))
        left = 0
        for k in range(axes):
            left = k + 1 if extents[k] != 1 else left
        rows = 1
        places = view_i64(to + 8 * _MOVE_HEAD, 3 * most)
        for k in range(most):
            from_axis = k - (most - left)
            if extents[0] == 0:  # No elements.
                places[k], places[most + k], places[2 * most + k], rows = 1, 0, 0, 0
            elif from_axis < 0:
                inner = k == most - 1
                places[k], places[most + k], places[2 * most + k] = 1, unit if inner else 0, out_size if inner else 0
            else:
                places[k], places[most + k], places[2 * most + k] = extents[from_axis], strides[from_axis], targets[from_axis]
                if k < most - 1:
                    rows *= extents[from_axis]
        store_i64(to + move.rows, rows)
    store_i64(table + at.left, most)
    store_i64(table + at.runs, runs)
    store_i64(table + at.fills, fills)
    store_i64(table + at.dense, dense)
    store_i64(table + at.elements, elements)
    store_i64(table + at.width, width)
    return 0
