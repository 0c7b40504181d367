"""A matrix applied along one axis: mel filters, cosine transforms."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...batch import Batch
from ...compiled.intrinsics import load_i64, view_f32, view_f64
from ...compiled.step import step
from ...device.launch import Kernel, Launch, grid_of
from ..base import Step, context_table, no_explanation

_BLOCK = 32
_SOURCE = Path(__file__).with_name("axis_matrix_kernels.cu")


@step
def axis_matrix_step(context, sample, thread):
    """Context: 0 input addresses, 1 output addresses, 2 outer, inner int64[samples, 2], 3 matrix float64[rows, columns], 4 rows, 5 columns,
    6 first and last column that is not zero, int64[rows, 2], 7 scratch offset (32 float64)."""
    sizes = load_i64(context + 16) + 16 * sample
    outer, inner = load_i64(sizes), load_i64(sizes + 8)
    rows, columns = load_i64(context + 32), load_i64(context + 40)
    source = view_f32(load_i64(load_i64(context) + 8 * sample), outer * columns * inner)
    out = view_f32(load_i64(load_i64(context + 8) + 8 * sample), outer * rows * inner)
    matrix = view_f64(load_i64(context + 24), rows * columns)
    sums = view_f64(load_i64(thread) + load_i64(context + 56), _BLOCK)
    for o in range(outer):
        for r in range(rows):
            begin, end = load_i64(load_i64(context + 48) + 16 * r), load_i64(load_i64(context + 48) + 16 * r + 8)
            for first in range(0, inner, _BLOCK):
                count = min(_BLOCK, inner - first)
                for i in range(count):
                    sums[i] = 0.0
                for c in range(begin, end):
                    weight, at = matrix[r * columns + c], (o * columns + c) * inner + first
                    for i in range(count):
                        sums[i] += weight * np.float64(source[at + i])
                at = (o * rows + r) * inner + first
                for i in range(count):
                    out[at + i] = np.float32(sums[i])
    return 0


def make_axis_matrix_step(source: Batch, output: Batch, axis: int, matrix: np.ndarray) -> Step:
    """The step for a batch: `matrix` float64[rows, columns] is applied along `axis`, which has `columns` elements."""
    shapes = source.shapes
    sizes = np.ascontiguousarray(np.stack([shapes[:, :axis].prod(axis=1), shapes[:, axis + 1 :].prod(axis=1)], axis=1), np.int64)
    used = matrix != 0
    some = used.any(axis=1)
    ends = np.where(some, matrix.shape[1] - used[:, ::-1].argmax(axis=1), 0)
    ranges = np.ascontiguousarray(np.stack([np.where(some, used.argmax(axis=1), 0), ends], axis=1), np.int64)
    rows, columns = matrix.shape
    values = (source.addresses, output.addresses, sizes, matrix, rows, columns, ranges)
    table, keep = context_table((*values, 0))
    grid = grid_of(int(sizes.prod(axis=1).max(initial=0)) * rows, len(sizes))
    step = Step(axis_matrix_step.address, table, no_explanation, 8 * _BLOCK, 7, keep)
    step.launches = lambda: [Launch(Kernel(_SOURCE, "axis_matrix"), (*values, len(sizes)), grid)]
    return step
