"""Compiled step of one_hot."""

from __future__ import annotations

from functools import cache

import numpy as np

from ...compiled.convert_kernels import load_value, view
from ...compiled.intrinsics import load_i64, view_i64
from ...compiled.step import Compiled, step_variant
from .one_hot import ONE_HOT, word

at = ONE_HOT.at


@cache
def one_hot_step(in_dtype: str, out_dtype: str) -> Compiled:
    """Write a new axis of zeros with a single one; the table is ONE_HOT."""
    view_in, view_out, value = view(in_dtype), view(out_dtype), load_value(in_dtype)

    @step_variant("one_hot", in_dtype, out_dtype)
    def one_hot(context, sample, thread):
        record = view_i64(load_i64(context + at.records) + word.size * sample, word.words)
        outer, classes, inner = record[word.outer], record[word.classes], record[word.inner]
        source = view_in(load_i64(load_i64(context + at.inputs) + 8 * sample), outer * inner)
        out = view_out(load_i64(load_i64(context + at.outputs) + 8 * sample), outer * classes * inner)
        values = view_out(load_i64(context + at.values), 2)
        off, on = values[0], values[1]
        for i in range(outer * classes * inner):
            out[i] = off
        for i in range(outer):
            for k in range(inner):
                index = np.int64(value(source[i * inner + k]))
                if 0 <= index < classes:
                    out[(i * classes + index) * inner + k] = on
        return 0

    return one_hot
