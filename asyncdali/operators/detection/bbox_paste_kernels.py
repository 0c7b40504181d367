"""Compiled step of bbox_paste."""

from __future__ import annotations

import numpy as np

from ...batch import Batch
from ...compiled.intrinsics import load_i64, view_f32
from ...compiled.step import step
from ..base import Step, no_explanation
from .bbox_paste_tables import BOX_PASTE, PLACEMENT

paste, placement = BOX_PASTE.at, PLACEMENT.word


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
