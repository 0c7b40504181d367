"""Compiled steps of the colour operators: ``x * factor + addend``, and a 3 x 3 matrix with an offset.

Everything is computed in float32 and rounded after each operation.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ...batch import Batch, storage_dtype, storage_name
from ...compiled import kinds
from ...compiled.byte_vectors import has_byte_tables, translator
from ...compiled.convert_kernels import converter, load_value, view
from ...compiled.intrinsics import (
    address,
    c_function,
    float_of_bits,
    larger,
    load_f32,
    load_i64,
    local_array,
    store_f32,
    store_i64,
    view_f32,
)  # fmt: skip
from ...compiled.step import Compiled, compiled, step_variant
from ...compiled.tables import laid_out
from ...device.launch import LINE, PACK, Kernel, Launch, Unstored, element_type, grid_of
from ..base import Step, no_explanation
from .color_tables import COLOR, LINEAR_FACTORS, MATRIX_FACTORS, TWISTS

at, _twists = COLOR.at, TWISTS.at
linear_word, matrix_word = LINEAR_FACTORS.word, MATRIX_FACTORS.word  # indices of float32 numbers in a record

_SOURCE = Path(__file__).with_suffix(".cu")
_FLOAT = 4  # bytes of float32
_COLORED = {"matrix": 1, "linear": 2}
"""Kernels, and the macro of a kernel that computes the same while reading (color.cuh)."""

_cosf = c_function("cosf", kinds.float32, kinds.float32)
_sinf = c_function("sinf", kinds.float32, kinds.float32)


@cache
def linear_step(in_dtype: str, out_dtype: str) -> Compiled:
    """One multiplication and addition per element; dtypes are NumPy names."""
    view_in, view_out, convert = view(in_dtype), view(out_dtype), converter("float32", out_dtype)
    if in_dtype == out_dtype == "uint8" and has_byte_tables():
        return _linear_by_table(convert)

    @step_variant(in_dtype, out_dtype)
    def linear(context, sample, thread):
        count = load_i64(load_i64(context + at.counts) + 8 * sample)
        factors = load_i64(context + at.factors) + _FLOAT * linear_word.words * sample
        multiplier, addend = load_f32(factors + _FLOAT * linear_word.multiplier), load_f32(factors + _FLOAT * linear_word.addend)
        source = view_in(load_i64(load_i64(context + at.inputs) + 8 * sample), count)
        out = view_out(load_i64(load_i64(context + at.outputs) + 8 * sample), count)
        for i in range(count):
            out[i] = convert(np.float32(source[i]) * multiplier + addend)
        return 0

    return linear


def _linear_by_table(convert: Any) -> Compiled:
    """Bytes to bytes: all 256 results are computed once per sample."""
    new_table, translate = local_array(np.uint8, 256), translator(1)

    @step_variant("table")
    def linear(context, sample, thread):
        count = load_i64(load_i64(context + at.counts) + 8 * sample)
        factors = load_i64(context + at.factors) + _FLOAT * linear_word.words * sample
        multiplier, addend = load_f32(factors + _FLOAT * linear_word.multiplier), load_f32(factors + _FLOAT * linear_word.addend)
        table = new_table()
        for k in range(256):
            table[k] = convert(np.float32(k) * multiplier + addend)
        source, out = load_i64(load_i64(context + at.inputs) + 8 * sample), load_i64(load_i64(context + at.outputs) + 8 * sample)
        translate(source, out, address(table), count)
        return 0

    return linear


@cache
def matrix_step(in_dtype: str, out_dtype: str) -> Compiled:
    """A matrix and an offset for pixels of three channels; dtypes are NumPy names."""
    view_in, view_out = view(in_dtype), view(out_dtype)
    value, convert = load_value(in_dtype), converter("float32", out_dtype)

    @step_variant(in_dtype, out_dtype)
    def matrix(context, sample, thread):
        count = load_i64(load_i64(context + at.counts) + 8 * sample)
        f = view_f32(load_i64(context + at.factors) + _FLOAT * matrix_word.words * sample, matrix_word.words)
        m0, m1, m2 = f[matrix_word.m_0], f[matrix_word.m_1], f[matrix_word.m_2]
        m3, m4, m5 = f[matrix_word.m_3], f[matrix_word.m_4], f[matrix_word.m_5]
        m6, m7, m8 = f[matrix_word.m_6], f[matrix_word.m_7], f[matrix_word.m_8]
        offset = f[matrix_word.offset]
        source = view_in(load_i64(load_i64(context + at.inputs) + 8 * sample), 3 * count)
        out = view_out(load_i64(load_i64(context + at.outputs) + 8 * sample), 3 * count)
        for i in range(count):
            a, b, c = np.float32(value(source[3 * i])), np.float32(value(source[3 * i + 1])), np.float32(value(source[3 * i + 2]))
            out[3 * i] = convert(m0 * a + m1 * b + m2 * c + offset)
            out[3 * i + 1] = convert(m3 * a + m4 * b + m5 * c + offset)
            out[3 * i + 2] = convert(m6 * a + m7 * b + m8 * c + offset)
        return 0

    return matrix


_TO_RADIANS = np.pi / 180


@compiled(1, brief=True)
def plan_twists(table):
    """Compute matrices, offsets and pixel counts of a batch (see TWISTS). Products and sums are rounded in DALI's order.

    Cosine and sine are the C library's, as in DALI. Returns -1 - i if sample i does not have three channels, else the largest pixel count.
    """
    half = float_of_bits(load_i64(table + _twists.half))
    to_yiq, from_yiq, row = load_i64(table + _twists.to_yiq), load_i64(table + _twists.from_yiq), load_i64(table + _twists.rows)
    hues, saturations = load_i64(table + _twists.hues), load_i64(table + _twists.saturations)
    values, brightnesses = load_i64(table + _twists.values), load_i64(table + _twists.brightnesses)
    contrasts, ndim = load_i64(table + _twists.contrasts), load_i64(table + _twists.ndim)
    shape, pixels, most = load_i64(table + _twists.shapes), load_i64(table + _twists.pixels), 0
    for i in range(load_i64(table + _twists.samples)):
        if load_i64(shape + 8 * (ndim - 1)) != 3:
            return -1 - i
        count = 1
        for axis in range(ndim - 1):
            count *= load_i64(shape + 8 * axis)
        store_i64(pixels + 8 * i, count)
        most = larger(most, count)
        shape += 8 * ndim
        angle = np.float32(np.float64(load_f32(hues + 4 * i)) * _TO_RADIANS)
        cosine, sine = _cosf(angle), _sinf(angle)
        saturation, value = load_f32(saturations + 4 * i), load_f32(values + 4 * i)
        brightness, contrast = load_f32(brightnesses + 4 * i), load_f32(contrasts + 4 * i)
        scale = brightness * contrast
        for k in range(3):
            luma = load_f32(from_yiq + 12 * k) * scale
            first, second = load_f32(from_yiq + 12 * k + 4) * scale, load_f32(from_yiq + 12 * k + 8) * scale
            turned, other = first * cosine - second * sine, first * sine + second * cosine
            luma, turned, other = luma * value, turned * saturation * value, other * saturation * value
            for j in range(3):
                column = 4 * j
                total = luma * load_f32(to_yiq + column) + turned * load_f32(to_yiq + 12 + column) + other * load_f32(to_yiq + 24 + column)
                store_f32(row + _FLOAT * (matrix_word.m_0 + 3 * k + j), total)
        store_f32(row + _FLOAT * matrix_word.offset, (half - half * contrast) * brightness)
        row += _FLOAT * matrix_word.words
    return most


def make_linear_step(source: Batch, output: Batch, factors: np.ndarray) -> Step:
    """The step for a batch; factors LINEAR_FACTORS[samples]."""
    compiled_step = linear_step(storage_name(source.dtype), storage_name(output.dtype))
    return _step(compiled_step, "linear", source, output, source.shapes.prod(axis=1), factors)


def make_matrix_step(source: Batch, output: Batch, factors: np.ndarray, pixels: np.ndarray, largest: int) -> Step:
    """The step for a batch of three channels; factors MATRIX_FACTORS[samples], pixels int64[samples], of which the largest is `largest`."""
    compiled_step = matrix_step(storage_name(source.dtype), storage_name(output.dtype))
    return _step(compiled_step, "matrix", source, output, pixels, factors, largest)


def _step(
    compiled_step: Compiled, entry: str, source: Batch, output: Batch, counts: np.ndarray, factors: np.ndarray, largest: int | None = None
) -> Step:  # fmt: skip
    counts, factors = np.ascontiguousarray(counts, np.int64), np.ascontiguousarray(factors, np.float32)
    entries = COLOR.entries(inputs=source.addresses, outputs=output.addresses, counts=counts, factors=factors, samples=len(counts))
    table, keep = laid_out(entries)
    types = ("IN", element_type(storage_dtype(source.dtype))), ("OUT", element_type(storage_dtype(output.dtype)))
    bytes_only = types[0][1] == types[1][1] == "uint8"
    each = LINE if bytes_only else PACK  # Elements or pixels per thread.

    def launches() -> list[Launch]:
        offers = None
        if bytes_only:
            unstored = COLOR.entries(inputs=source.addresses, outputs=0, counts=counts, factors=factors, samples=len(counts))
            offers = Unstored("colored", output.addresses, unstored, (("COLORED", _COLORED[entry]),))
        most = int(counts.max(initial=0)) if largest is None else largest
        grid = grid_of(-(-most // each), len(counts))
        return [Launch(Kernel(_SOURCE, entry, types), entries, grid, offers=offers)]

    return Step(compiled_step.address, table, no_explanation, keep=keep, launches=launches)
