"""Compiled steps of normalize, after the reductions: variances to factors, and their application."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from ...compiled.convert_kernels import converter, storage, view
from ...compiled.intrinsics import load_i64, local_array, smaller, view_f32, view_i64
from ...compiled.step import Compiled, inlined, step, step_variant
from ..moves.pieces_kernels import collapse
from .normalize_tables import APPLY, FACTORS

at, _factors = APPLY.at, FACTORS.at


@step
def factor_step(context, sample, thread):
    """``scale / sqrt(variance + epsilon)`` in place; 0 for 0. See FACTORS."""
    count = load_i64(load_i64(context + _factors.counts) + 8 * sample)
    values = view_f32(load_i64(load_i64(context + _factors.variances_addresses) + 8 * sample), count)
    known, numbers = load_i64(load_i64(context + _factors.known) + 8 * sample), view_f32(load_i64(context + _factors.scale_and_epsilon), 2)
    scale, epsilon = numbers[0], numbers[1]
    for i in range(count):
        x = np.float32(values[i] + epsilon) if known != 0 else epsilon
        values[i] = np.float32(scale * np.float32(1 / math.sqrt(np.float64(x)))) if x != 0 else np.float32(0)
    return 0


_TILE = 192  # Elements up to which means and factors of short rows are repeated.
_new_tiles = local_array(np.float32, 2 * _TILE)


@cache
def apply_step(in_dtype: str, out_dtype: str) -> Compiled:
    """``(in - mean) * factor + shift``, rounded and saturated."""
    view_in, view_out, convert = view(in_dtype), view(out_dtype), converter("float32", out_dtype)
    in_size, out_size = storage(in_dtype).itemsize, storage(out_dtype).itemsize

    @inlined
    def row(source, out, count, mean, mean_stride, factor, factor_stride, shift):
        x, y = view_in(source, count), view_out(out, count)
        means, factors = view_f32(mean, count), view_f32(factor, count)
        if mean_stride == 0 and factor_stride == 0:
            m, f = means[0], factors[0]
            for i in range(count):
                y[i] = convert(np.float32(np.float32(np.float32(np.float32(x[i]) - m) * f) + shift))
        else:
            for i in range(count):
                centred = np.float32(np.float32(x[i]) - means[i * mean_stride])
                y[i] = convert(np.float32(np.float32(centred * factors[i * factor_stride]) + shift))

    @inlined
    def short_rows(source, out, rows, width, mean, mean_stride, factor, factor_stride, shift, tiles):
        """Short rows with the same means and factors as one row. Means and factors are repeated up to `_TILE` to fill vectors."""
        period = _TILE // width * width
        m, f = tiles[:_TILE], tiles[_TILE:]
        for i in range(period):
            m[i] = view_f32(mean + 4 * (i % width) * mean_stride, 1)[0]
            f[i] = view_f32(factor + 4 * (i % width) * factor_stride, 1)[0]
        count = rows * width
        for first in range(0, count, period):
            x, y = view_in(source + first * in_size, period), view_out(out + first * out_size, period)
            for i in range(smaller(period, count - first)):
                y[i] = convert(np.float32(np.float32(np.float32(np.float32(x[i]) - m[i]) * f[i]) + shift))

    @step_variant("apply", in_dtype, out_dtype)
    def apply(context, sample, thread):
        axes = load_i64(context + at.groups)
        record = load_i64(context + at.records) + 24 * axes * sample
        extents = view_i64(record, axes)
        mean_strides, factor_strides = view_i64(record + 8 * axes, axes), view_i64(record + 16 * axes, axes)
        source, out = load_i64(load_i64(context + at.inputs) + 8 * sample), load_i64(load_i64(context + at.outputs) + 8 * sample)
        mean = load_i64(load_i64(context + at.means_addresses) + 8 * sample)
        factor = load_i64(load_i64(context + at.factors_addresses) + 8 * sample)
        shift = view_f32(load_i64(context + at.shift), 1)[0]
        left = collapse(extents, mean_strides, factor_strides)
        if left < 0:
            return 0
        if left == 0:
            row(source, out, 1, mean, 0, factor, 0, shift)
            return 0
        width, rows = extents[left - 1], 1
        mean_stride, factor_stride = mean_strides[left - 1], factor_strides[left - 1]
        for k in range(left - 1):
            rows *= extents[k]
        short, tiles = left >= 2 and width <= _TILE // 4 and mean_strides[left - 2] == 0 and factor_strides[left - 2] == 0, _new_tiles()
        if short:
            rows //= extents[left - 2]
        for r in range(rows):
            rest, m, f = r, mean, factor
            for k in range(left - 3 if short else left - 2, -1, -1):
                index = rest % extents[k]
                rest //= extents[k]
                m += 4 * index * mean_strides[k]
                f += 4 * index * factor_strides[k]
            if short:
                size = extents[left - 2] * width
                begin, to = source + r * size * in_size, out + r * size * out_size
                short_rows(begin, to, extents[left - 2], width, m, mean_stride, f, factor_stride, shift, tiles)
                continue
            row(source + r * width * in_size, out + r * width * out_size, width, m, mean_stride, f, factor_stride, shift)
        return 0

    return apply
