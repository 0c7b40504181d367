"""Compiled steps that work on boxes."""

from __future__ import annotations

import numpy as np

from ...batch import Batch
from ...compiled.intrinsics import load_f32, load_i64, view_f32
from ...compiled.step import step
from ..base import Step, context_table, no_explanation


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
