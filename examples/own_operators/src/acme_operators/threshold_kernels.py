"""The compiled step of ``threshold``, and its launch."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from asyncdali.extending import Batch, Kernel, Launch, Step, element_type, grid_of, laid_out, no_explanation, storage_dtype
from asyncdali.extending.kernels import load_i64, step_variant, view_f32, view_of

from .threshold_tables import THRESHOLD

at = THRESHOLD.at


@cache
def threshold_step(dtype: str) -> Any:
    """The step for elements of a numpy dtype."""
    view, kind = view_of(dtype), np.dtype(dtype).type

    @step_variant("threshold", dtype)
    def threshold(context, sample, thread):
        count = load_i64(load_i64(context + at.sizes) + 8 * sample)
        source = view(load_i64(load_i64(context + at.inputs) + 8 * sample), count)
        out = view(load_i64(load_i64(context + at.outputs) + 8 * sample), count)
        record = view_f32(load_i64(context + at.records) + 12 * sample, 3)
        low, high = kind(record[1]), kind(record[2])
        for i in range(count):
            out[i] = high if np.float32(source[i]) >= record[0] else low
        return 0

    return threshold


def make_threshold_step(source: Batch, output: Batch, records: np.ndarray) -> Step:
    """The step for a batch, with its launch for a GPU. `records` are float32[samples, 3]."""
    sizes = np.ascontiguousarray(source.shapes.prod(axis=1))
    entries = THRESHOLD.entries(inputs=source.addresses, outputs=output.addresses, sizes=sizes, records=records, samples=len(source))
    table, keep = laid_out(entries)
    dtype = storage_dtype(source.dtype)

    def launches() -> list[Launch]:
        kernel = Kernel(Path(__file__).with_suffix(".cu"), "threshold", (("T", element_type(dtype)),))
        return [Launch(kernel, entries, grid_of(int(sizes.max(initial=0)), len(sizes)))]

    return Step(threshold_step(dtype.name).address, table, no_explanation, keep=keep, launches=launches)
