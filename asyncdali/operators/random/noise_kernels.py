"""Compiled steps of the noise operators: draws are addressed by the place of an element in its sample."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from ...batch import Batch, storage_dtype
from ...compiled.intrinsics import fma32, fma64, load_f32, load_i64
from ...compiled.memory import address_of
from ...compiled.step import Compiled, compiled, step_variant
from ...device.launch import Entry, Kernel, Launch, element_type, grid_of
from ..arrays.convert_kernels import converter, view
from ..base import Step, no_explanation
from .random_distributions_kernels import new_stream, poisson
from .random_streams import KINDS, StreamPosition
from .random_streams_kernels import cast_bound, normal32, normal64, open_stream, store_value, word

# Context table: 0 input addresses, 1 output addresses, 2 elements int64[samples], 3 parameters float32[samples, 2] (or 1), 4 key, 5 hi,
# 6 lo, 7 phase; of salt_and_pepper also 8 flavours (element type)[samples, 2], 9 elements that change together int64[samples], 10 elements
# from one of these to the next int64[samples].

_SOURCE = Path(__file__).with_name("noise_kernels.cu")
_U = np.uint64
_SAMPLE_STRIDE, _ELEMENT_STRIDE = _U(65537), _U(257)
_2_POW_MINUS_32 = np.float32(2.0**-32)
_WIDE = ("int32", "uint32", "int64", "uint64", "float64")


@cache
def gaussian_step(dtype: str) -> Compiled:
    """noise.gaussian for the numpy name of a dtype."""
    elements, wide = view(dtype), dtype in _WIDE
    convert = converter("float64" if wide else "float32", dtype)

    @step_variant(dtype)
    def gaussian(context, sample, thread):
        count = load_i64(load_i64(context + 16) + 8 * sample)
        source = elements(load_i64(load_i64(context) + 8 * sample), count)
        out = elements(load_i64(load_i64(context + 8) + 8 * sample), count)
        parameters = load_i64(context + 24) + 8 * sample
        mean, deviation = load_f32(parameters), load_f32(parameters + 4)
        key, hi, lo = _U(load_i64(context + 32)), _U(load_i64(context + 40)) + _SAMPLE_STRIDE * _U(sample), _U(load_i64(context + 48))
        offset = _U(load_i64(context + 56))
        for e in range(count):
            if wide:
                noise = fma64(normal64(key, hi, lo, offset), np.float64(deviation), np.float64(mean))
                out[e] = convert(np.float64(source[e]) + noise)
            else:
                noise32 = fma32(normal32(key, hi, lo, offset), deviation, mean)
                out[e] = convert(np.float32(np.float32(source[e]) + noise32))
            offset += _ELEMENT_STRIDE
        return 0

    return gaussian


@cache
def shot_step(dtype: str) -> Compiled:
    """noise.shot for the numpy name of a dtype."""
    elements, convert = view(dtype), converter("float32", dtype)

    @step_variant(dtype)
    def shot(context, sample, thread):
        count = load_i64(load_i64(context + 16) + 8 * sample)
        source = elements(load_i64(load_i64(context) + 8 * sample), count)
        out = elements(load_i64(load_i64(context + 8) + 8 * sample), count)
        factor = load_f32(load_i64(context + 24) + 4 * sample)
        key, hi, lo = _U(load_i64(context + 32)), _U(load_i64(context + 40)) + _SAMPLE_STRIDE * _U(sample), _U(load_i64(context + 48))
        offset = _U(load_i64(context + 56))
        inverse = np.float32(np.float32(1) / factor)
        stream = new_stream()
        for e in range(count):
            events = np.float32(0)
            if factor != 0:
                mean = np.float32(np.float32(source[e]) * inverse)
                open_stream(stream, key, hi, lo, offset)
                events = np.float32(poisson(stream, np.float64(mean if mean > 0 else np.float32(0))))
            out[e] = convert(np.float32(events * factor))
            offset += _ELEMENT_STRIDE
        return 0

    return shot


@cache
def salt_and_pepper_step(dtype: str) -> Compiled:
    """noise.salt_and_pepper for the numpy name of a dtype."""
    elements, itemsize = view(dtype), np.dtype(dtype).itemsize

    @step_variant(dtype)
    def salt_and_pepper(context, sample, thread):
        count = load_i64(load_i64(context + 16) + 8 * sample)
        source = elements(load_i64(load_i64(context) + 8 * sample), count)
        out = elements(load_i64(load_i64(context + 8) + 8 * sample), count)
        parameters = load_i64(context + 24) + 8 * sample
        chance, salt_chance = load_f32(parameters), load_f32(parameters + 4)
        key, hi, lo = _U(load_i64(context + 32)), _U(load_i64(context + 40)) + _SAMPLE_STRIDE * _U(sample), _U(load_i64(context + 48))
        flavours = elements(load_i64(context + 64) + 2 * itemsize * sample, 2)
        together, inner = load_i64(load_i64(context + 72) + 8 * sample), load_i64(load_i64(context + 80) + 8 * sample)
        offset = _U(load_i64(context + 56))
        if count == 0:
            return 0
        for pixel in range(count // together):
            draw = np.float32(np.float32(word(key, hi, lo, offset)) * _2_POW_MINUS_32)
            first = pixel // inner * inner * together + pixel % inner
            for c in range(together):
                e = first + c * inner
                out[e] = source[e] if not draw < chance else flavours[0] if draw < salt_chance else flavours[1]
            offset += _ELEMENT_STRIDE
        return 0

    return salt_and_pepper


@compiled(4)
def _cast(values, count, out, kind):
    for i in range(count):
        store_value(out, i, kind, cast_bound(load_f32(values + 4 * i), kind))
    return 0


def cast_values(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """float32 values cast as C does it on x86-64 (see ``cast_bound``)."""
    values = np.ascontiguousarray(values, np.float32)
    if np.dtype(dtype).itemsize == 8 and (np.abs(values) < 2.0**63).all():
        return values.astype(np.int64).view(dtype)  # float64 would not hold what has wrapped
    out = np.empty(len(values), dtype)
    _cast(address_of(values), len(values), address_of(out), KINDS[np.dtype(dtype)])
    return out


def make_step(
    kernel: Compiled, source: Batch, output: Batch, position: StreamPosition, parameters: np.ndarray, *tables: np.ndarray, cuda: str = ""
) -> Step:
    """The step for a batch whose draws begin at `position`; parameters float32[samples, n], tables: see the context table.

    cuda  the kernel of ``noise_kernels.cu``, if there is one
    """
    counts, parameters = np.ascontiguousarray(source.shapes.prod(axis=1), np.int64), np.ascontiguousarray(parameters, np.float32)
    arrays = (source.addresses, output.addresses, counts, parameters)
    words = np.array([position.key, position.hi, position.lo, position.phase], np.uint64).view(np.int64)
    context = np.array([*(address_of(array) for array in arrays), *words.tolist(), *(address_of(array) for array in tables)], np.int64)
    step = Step(kernel.address, context, no_explanation, keep=(*arrays, *tables))

    def launches() -> list[Launch]:
        name = element_type(storage_dtype(source.dtype))
        entries: tuple[Entry, ...] = (*arrays, *words.tolist(), *(tables or (0, 0, 0)), len(counts))
        grid = grid_of(int(counts.max(initial=0)), len(counts))
        return [Launch(Kernel(_SOURCE, cuda, (("IN", name), ("OUT", name))), entries, grid)]

    if cuda:
        step.launches = launches
    return step
