"""Compiled step of coord_transform: a matrix and an offset for points, in float32, rounded after each operation."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from ...compiled.convert_kernels import converter, load_value, view
from ...compiled.intrinsics import load_f32, load_i64
from ...compiled.step import Compiled, inlined, step_variant
from .coord_transform import COORD_TRANSFORM

at = COORD_TRANSFORM.at
_SOURCE = Path(__file__).with_suffix(".cu")


@cache
def points_step(in_dtype: str, out_dtype: str) -> Compiled:
    """Convert points from one type to another (NumPy names of dtypes)."""
    view_in, view_out, convert = view(in_dtype), view(out_dtype), converter("float32", out_dtype)
    value = load_value(in_dtype)

    @inlined
    def transform_plane(matrix, source, out, count):
        """Points of two coordinates to points of two, which LLVM vectorises. Sums begin with 0 as in the general loop: 0 + -0 is 0."""
        a, b, t = load_f32(matrix), load_f32(matrix + 4), load_f32(matrix + 8)
        c, d, u = load_f32(matrix + 12), load_f32(matrix + 16), load_f32(matrix + 20)
        nothing = np.float32(0)
        for i in range(np.uint64(count)):
            first, second = i * np.uint64(2), i * np.uint64(2) + np.uint64(1)  # unsigned: no checks of negative indices
            x, y = np.float32(value(source[first])), np.float32(value(source[second]))
            out[first] = convert(nothing + a * x + b * y + t)
            out[second] = convert(nothing + c * x + d * y + u)

    @step_variant(in_dtype, out_dtype)
    def points(context, sample, thread):
        count = load_i64(load_i64(context + at.points) + 8 * sample)
        rows, columns = load_i64(context + at.rows), load_i64(context + at.columns)
        matrix = load_i64(context + at.matrices) + 4 * sample * rows * (columns + 1)
        source = view_in(load_i64(load_i64(context + at.inputs) + 8 * sample), count * columns)
        out = view_out(load_i64(load_i64(context + at.outputs) + 8 * sample), count * rows)
        if rows == 2 and columns == 2:
            transform_plane(matrix, source, out, count)
            return 0
        for i in range(count):
            for row in range(rows):
                row_at = matrix + 4 * row * (columns + 1)
                total = np.float32(0)
                for column in range(columns):
                    total += load_f32(row_at + 4 * column) * np.float32(value(source[i * columns + column]))
                out[i * rows + row] = convert(total + load_f32(row_at + 4 * columns))
        return 0

    return points


