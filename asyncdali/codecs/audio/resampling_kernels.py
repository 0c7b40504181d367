"""Compiled resampling of sound. Every output sample is a sum of input samples around its time, weighted by a windowed sinc."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir

from ...compiled import kinds
from ...compiled.convert_kernels import converter, view
from ...compiled.intrinsics import address, larger, load_f64, load_i64, local_array, smaller
from ...compiled.step import Compiled, inlined, step_variant
from ...compiled.vectors import I32, call_ir, function_of, lanes
from ...device.launch import element_type
from .resampling_tables import RESAMPLE

at = RESAMPLE.at


PER_LOBE = 32
"""Entries of a window's table between two zeros of the sinc."""
LANES = 8
"""Partial sums that are computed side by side."""
_WINDOW = 4096  # Input samples that are loaded together; at least the taps of one output.
_window = local_array(np.float32, _WINDOW)


_f32 = lanes("float32", LANES)
_load, _zeros = _f32.load, _f32.splat


def _multiply_add_ir(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return call_ir(builder, f"llvm.fmuladd.v{LANES}f32", args)


_multiply_add = function_of(_f32.kind(_f32.kind, _f32.kind, _f32.kind), _multiply_add_ir)


def _between_ir(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    def picked(a: Any, b: Any, places: list[int]) -> Any:
        return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(I32, len(places)), places))

    # Both vectors are summed together: first lanes k and k + 4, then neighbouring lanes, then the last two lanes.
    quarters = [builder.fadd(picked(value, value, [0, 1, 2, 3]), picked(value, value, [4, 5, 6, 7])) for value in args[:2]]
    halves = builder.fadd(picked(quarters[0], quarters[1], [0, 2, 4, 6]), picked(quarters[0], quarters[1], [1, 3, 5, 7]))
    whole = builder.fadd(picked(halves, halves, [0, 2]), picked(halves, halves, [1, 3]))
    first, second = builder.extract_element(whole, I32(0)), builder.extract_element(whole, I32(1))
    return call_ir(builder, "llvm.fmuladd.f32", [builder.fsub(second, first), args[2], first])


_between = function_of(kinds.float32(_f32.kind, _f32.kind, kinds.float32), _between_ir)
"""``between(a, b, part)``: a number between the sums of the lanes of `a` and of `b`."""


@inlined
def _weighted(first, second, part, source, taps):
    """The sum of `taps` samples, a multiple of LANES. Weights are interpolated between two rows. All are addresses."""
    a, b = _zeros(np.float32(0)), _zeros(np.float32(0))
    for k in range(0, 4 * taps, 4 * LANES):
        samples = _load(source + k)
        a, b = _multiply_add(_load(first + k), samples, a), _multiply_add(_load(second + k), samples, b)
    return _between(a, b, part)


def _mapping(in_dtype: str, out_dtype: str) -> tuple[float, float]:
    """(factor, offset) that map the input's range to the output's. FLOAT is [-1, 1], integers use the range of their type."""

    def ends(dtype: str) -> tuple[float, float]:
        """The values of silence and of 1.0."""
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
    """The step of RESAMPLE for two element types.

    Samples are [time, channels]. They are first mapped to the output's range; there, samples before and after the signal are 0. An output
    between two input samples uses `lobes` input samples on each side. Rows of weights are for positions 1 / PER_LOBE apart; a row runs from
    the later sample backwards.
    """
    view_in, view_out = view(in_dtype), view(out_dtype)
    load, store = _loader(in_dtype, out_dtype), converter("float32", out_dtype)

    @inlined
    def fill(window, source, begin, span, length, channels, channel):
        """Samples of a channel from `begin` on, with silence where there are none."""
        for k in range(span):
            window[k] = np.float32(0)
        for k in range(larger(-begin, 0), smaller(span, length - begin)):
            window[k] = load(source[(begin + k) * channels + channel])

    @step_variant(in_dtype, out_dtype)
    def resample(context, sample, thread):
        place = 8 * sample
        length, count = load_i64(load_i64(context + at.lengths) + place), load_i64(load_i64(context + at.counts) + place)
        channels = load_i64(load_i64(context + at.channels) + place)
        ratio = load_f64(load_i64(context + at.ratios) + place)
        weights, lobes, taps = load_i64(context + at.weights), load_i64(context + at.lobes), load_i64(context + at.taps)
        source = view_in(load_i64(load_i64(context + at.inputs) + place), length * channels)
        out = view_out(load_i64(load_i64(context + at.outputs) + place), count * channels)
        window = _window()
        # Outputs whose inputs fit into the window; at least one.
        together = np.int64(larger(np.float64(_WINDOW - taps - 2) / larger(ratio, 1e-6), 1.0))
        for start in range(0, count, together):
            stop = smaller(start + together, count)
            begin = np.int64(np.floor(np.float64(start) * ratio)) - lobes + 1
            end = np.int64(np.floor(np.float64(stop - 1) * ratio)) - lobes + 1 + taps
            for channel in range(channels):
                fill(window, source, begin, end - begin, length, channels, channel)
                for i in range(start, stop):
                    position = np.float64(i) * ratio
                    whole = np.floor(position)
                    place = PER_LOBE * (1 - (position - whole))
                    row = np.int64(place)
                    first = weights + 4 * taps * row
                    inputs = address(window) + 4 * (np.int64(whole) - lobes + 1 - begin)
                    found = _weighted(first, first + 4 * taps, np.float32(place - row), inputs, taps)
                    out[i * channels + channel] = store(found)
        return 0

    return resample


def macros_of(types: tuple[str, str]) -> tuple[tuple[str, str | int], ...]:
    """The macros of the CUDA kernel for element types of input and output."""
    factor, offset = _mapping(*types)
    return (
        ("IN", element_type(types[0])), ("OUT", element_type(types[1])), ("FACTOR", str(factor)), ("OFFSET", str(offset)),
        ("PER_LOBE", PER_LOBE),
    )  # fmt: skip
