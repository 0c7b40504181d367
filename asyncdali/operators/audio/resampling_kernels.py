"""Compiled resampling of sound: every output sample is a windowed sinc over the input around its place in time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ...compiled.intrinsics import larger, load_f64, load_i64, local_array, smaller, view_f32
from ...compiled.step import Compiled, contracted, inlined, step_variant
from ...device.launch import Entry, Kernel, Launch, element_type, grid_of
from ..arrays.convert_kernels import converter, view

_SOURCE = Path(__file__).with_suffix(".cu")

PER_LOBE = 32
"""Entries of a window's table from one zero of the sinc to the next."""
MOST_LOBES = 64
_weights = local_array(np.float32, 2 * MOST_LOBES + 2)


@inlined
def _place_weights(weights, position, first, last, table, lobes):
    """Weights of input samples first..last for an output at `position` (in input samples)."""
    for k in range(first, last + 1):
        at = (np.float64(k) - position + lobes) * PER_LOBE
        cell = np.int64(at)
        part = np.float32(at - cell)
        weights[k - first] = table[cell] + (table[cell + 1] - table[cell]) * part


def _mapping(in_dtype: str, out_dtype: str) -> tuple[float, float]:
    """(factor, offset) that make a number of the output's range of the input's: FLOAT is [-1, 1], integers have their type's."""

    def ends(dtype: str) -> tuple[float, float]:
        """What silence and 1.0 are."""
        largest = 1.0 if dtype == "float32" else float(np.iinfo(dtype).max)
        return (largest / 2 if dtype.startswith("u") else 0.0), largest

    if in_dtype == out_dtype:
        return 1.0, 0.0
    (in_silence, in_largest), (out_silence, out_largest) = ends(in_dtype), ends(out_dtype)
    factor = (out_largest - out_silence) / (in_largest - in_silence)
    return factor, out_silence - in_silence * factor


@cache
def _loader(in_dtype: str, out_dtype: str) -> Any:
    """``value(element)``: the number in the output's range, float32."""
    if in_dtype == out_dtype:
        return inlined(lambda element: np.float32(element))
    factor, offset = map(np.float32, _mapping(in_dtype, out_dtype))
    return inlined(lambda element: np.float32(element) * factor + offset)


@cache
def resample_step(in_dtype: str, out_dtype: str) -> Compiled:
    """Context: 0 input addresses, 1 output addresses, 2 input and 3 output samples in time int64[samples], 4 channels int64[samples],
    5 input samples per output sample float64[samples], 6 window float32[2 * lobes * PER_LOBE + 2], 7 lobes on each side.

    Samples are [time, channels]. They are mapped on the output's range first; what is before and after them is 0 there.
    """
    view_in, view_out = view(in_dtype), view(out_dtype)
    load, store = _loader(in_dtype, out_dtype), converter("float32", out_dtype)

    @contracted
    def weighted(weights, source, taps, channels):
        """The weighted sum of `taps` elements, `channels` apart: four sums, so that one does not wait for the other."""
        a, b, c, d = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
        whole = taps & -4
        for k in range(0, whole, 4):
            at = k * channels
            a += weights[k] * load(source[at])
            b += weights[k + 1] * load(source[at + channels])
            c += weights[k + 2] * load(source[at + 2 * channels])
            d += weights[k + 3] * load(source[at + 3 * channels])
        for k in range(whole, taps):
            a += weights[k] * load(source[k * channels])
        return (a + b) + (c + d)

    @step_variant(in_dtype, out_dtype)
    def resample(context, sample, thread):
        at = 8 * sample
        length, count = load_i64(load_i64(context + 16) + at), load_i64(load_i64(context + 24) + at)
        channels = load_i64(load_i64(context + 32) + at)
        ratio = load_f64(load_i64(context + 40) + at)
        lobes = load_i64(context + 56)
        table = view_f32(load_i64(context + 48), 2 * lobes * PER_LOBE + 2)
        source = view_in(load_i64(load_i64(context) + at), length * channels)
        out = view_out(load_i64(load_i64(context + 8) + at), count * channels)
        weights = _weights()
        for i in range(count):
            position = np.float64(i) * ratio
            first = larger(np.int64(np.ceil(position - lobes)), 0)
            last = smaller(np.int64(np.floor(position + lobes)), length - 1)
            _place_weights(weights, position, first, last, table, lobes)
            taps = larger(last - first + 1, 0)
            for channel in range(channels):
                out[i * channels + channel] = store(weighted(weights, source[first * channels + channel :], taps, channels))
        return 0

    return resample


def resample_launch(values: Sequence[Entry], counts: np.ndarray, channels: np.ndarray, types: tuple[str, str]) -> Launch:
    """The same for a GPU; `values` are the entries of the table."""
    factor, offset = _mapping(*types)
    macros = (
        ("IN", element_type(np.dtype(types[0]))), ("OUT", element_type(np.dtype(types[1]))), ("FACTOR", str(factor)),
        ("OFFSET", str(offset)), ("PER_LOBE", PER_LOBE),
    )  # fmt: skip
    return Launch(
        Kernel(_SOURCE, "resample", macros), (*values, len(counts)), grid_of(int((counts * channels).max(initial=0)), len(counts))
    )
