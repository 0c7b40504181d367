"""Compiled steps of the colour operators: ``x * factor + addend``, and a 3 x 3 matrix with an offset.

All in float32, rounded after each operation.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numba import types

from ...batch import Batch, storage_dtype
from ...compiled.byte_vectors import has_byte_tables, translator
from ...compiled.intrinsics import address, c_function, load_f32, load_i64, local_array, store_f32
from ...compiled.step import Compiled, compiled, step_variant
from ...device.launch import LINE, PACK, Kernel, Launch, element_type, grid_of
from ..arrays.convert_kernels import converter, load_value, view
from ..base import Step, context_table, no_explanation

# Context table: 0 input addresses, 1 output addresses, 2 counts int64[samples] (elements, or pixels), 3 factors float32[samples, n].
#
# Factors: 0 multiplier, 1 addend of linear_step; 0-8 matrix, a row per output channel, 9 offset of matrix_step.

_SOURCE = Path(__file__).with_suffix(".cu")

_cosf = c_function("cosf", types.float32, types.float32)
_sinf = c_function("sinf", types.float32, types.float32)


@cache
def linear_step(in_dtype: str, out_dtype: str) -> Compiled:
    """One multiplication and addition for each element; numpy names of the dtypes."""
    view_in, view_out, convert = view(in_dtype), view(out_dtype), converter("float32", out_dtype)
    if in_dtype == out_dtype == "uint8" and has_byte_tables():
        return _linear_by_table(convert)

    @step_variant(in_dtype, out_dtype)
    def linear(context, sample, thread):
        count = load_i64(load_i64(context + 16) + 8 * sample)
        factors = load_i64(context + 24) + 8 * sample
        multiplier, addend = load_f32(factors), load_f32(factors + 4)
        source = view_in(load_i64(load_i64(context) + 8 * sample), count)
        out = view_out(load_i64(load_i64(context + 8) + 8 * sample), count)
        for i in range(count):
            out[i] = convert(np.float32(source[i]) * multiplier + addend)
        return 0

    return linear


def _linear_by_table(convert: Any) -> Compiled:
    """Bytes to bytes: all 256 results are computed once per sample."""
    new_table, translate = local_array(np.uint8, 256), translator(1)

    @step_variant("table")
    def linear(context, sample, thread):
        count = load_i64(load_i64(context + 16) + 8 * sample)
        factors = load_i64(context + 24) + 8 * sample
        multiplier, addend = load_f32(factors), load_f32(factors + 4)
        table = new_table()
        for k in range(256):
            table[k] = convert(np.float32(k) * multiplier + addend)
        translate(load_i64(load_i64(context) + 8 * sample), load_i64(load_i64(context + 8) + 8 * sample), address(table), count)
        return 0

    return linear


@cache
def matrix_step(in_dtype: str, out_dtype: str) -> Compiled:
    """A matrix and an offset for pixels of three channels; numpy names of the dtypes."""
    view_in, view_out = view(in_dtype), view(out_dtype)
    value, convert = load_value(in_dtype), converter("float32", out_dtype)

    @step_variant(in_dtype, out_dtype)
    def matrix(context, sample, thread):
        count = load_i64(load_i64(context + 16) + 8 * sample)
        f = load_i64(context + 24) + 40 * sample
        m0, m1, m2 = load_f32(f), load_f32(f + 4), load_f32(f + 8)
        m3, m4, m5 = load_f32(f + 12), load_f32(f + 16), load_f32(f + 20)
        m6, m7, m8 = load_f32(f + 24), load_f32(f + 28), load_f32(f + 32)
        offset = load_f32(f + 36)
        source = view_in(load_i64(load_i64(context) + 8 * sample), 3 * count)
        out = view_out(load_i64(load_i64(context + 8) + 8 * sample), 3 * count)
        for i in range(count):
            a, b, c = np.float32(value(source[3 * i])), np.float32(value(source[3 * i + 1])), np.float32(value(source[3 * i + 2]))
            out[3 * i] = convert(m0 * a + m1 * b + m2 * c + offset)
            out[3 * i + 1] = convert(m3 * a + m4 * b + m5 * c + offset)
            out[3 * i + 2] = convert(m6 * a + m7 * b + m8 * c + offset)
        return 0

    return matrix


@compiled(3, brief=True)
def turns(angles, out, count):
    """Cosine and sine by the C library, as DALI: float32[count] to float32[2, count]."""
    for i in range(count):
        angle = load_f32(angles + 4 * i)
        store_f32(out + 4 * i, _cosf(angle))
        store_f32(out + 4 * (count + i), _sinf(angle))
    return 0


def cosines_and_sines(radians: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """float32 cosines and sines of angles rounded to float32."""
    angles = radians.astype(np.float32)
    out = np.empty((2, len(angles)), np.float32)
    turns(angles.ctypes.data, out.ctypes.data, len(angles))
    return out[0], out[1]


def make_linear_step(source: Batch, output: Batch, factors: np.ndarray) -> Step:
    """The step for a batch; factors float32[samples, 2]."""
    compiled_step = linear_step(storage_dtype(source.dtype).name, storage_dtype(output.dtype).name)
    return _step(compiled_step, "linear", source, output, source.shapes.prod(axis=1), factors)


def make_matrix_step(source: Batch, output: Batch, factors: np.ndarray) -> Step:
    """The step for a batch of three channels; factors float32[samples, 10]."""
    compiled_step = matrix_step(storage_dtype(source.dtype).name, storage_dtype(output.dtype).name)
    return _step(compiled_step, "matrix", source, output, source.shapes[:, :-1].prod(axis=1), factors)


def _step(compiled_step: Compiled, entry: str, source: Batch, output: Batch, counts: np.ndarray, factors: np.ndarray) -> Step:
    counts, factors = np.ascontiguousarray(counts, np.int64), np.ascontiguousarray(factors, np.float32)
    table, keep = context_table((source.addresses, output.addresses, counts, factors))
    types = ("IN", element_type(storage_dtype(source.dtype))), ("OUT", element_type(storage_dtype(output.dtype)))

    each = LINE if types[0][1] == types[1][1] == "uint8" else PACK  # elements or pixels that a thread makes

    def launches() -> list[Launch]:
        context = (source.addresses, output.addresses, counts, factors, len(counts))
        return [Launch(Kernel(_SOURCE, entry, types), context, grid_of(-(-int(counts.max(initial=0)) // each), len(counts)))]

    return Step(compiled_step.address, table, no_explanation, keep=keep, launches=launches)
