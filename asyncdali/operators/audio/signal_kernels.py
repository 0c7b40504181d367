"""Compiled steps of to_decibels, preemphasis_filter and nonsilent_region."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from ...batch import Batch, storage_dtype
from ...compiled.intrinsics import load_f32, load_f64, load_i64, store_i32, view_f32
from ...compiled.step import Compiled, inlined, step, step_variant
from ...device.launch import Entry, Kernel, Launch, Scratch, element_type, grid_of
from ..arrays.convert_kernels import converter, view
from ..base import Step, context_table, no_explanation

_SOURCE = Path(__file__).with_name("signal_kernels.cu")
_PART, _MOST_PARTS = 8192, 64  # of a sample that a block searches for its largest element


@step
def decibels_step(context, sample, thread):
    """Context: 0 input addresses, 1 output addresses, 2 elements int64[samples], 3 float64[3]: multiplier, reference (0: the largest
    element), smallest ratio."""
    count, numbers = load_i64(load_i64(context + 16) + 8 * sample), load_i64(context + 24)
    source = view_f32(load_i64(load_i64(context) + 8 * sample), count)
    out = view_f32(load_i64(load_i64(context + 8) + 8 * sample), count)
    multiplier, reference, least = load_f64(numbers), load_f64(numbers + 8), load_f64(numbers + 16)
    if reference == 0.0:
        for i in range(count):
            reference = max(reference, np.float64(source[i]))
        reference = 1.0 if reference == 0.0 else reference
    for i in range(count):
        out[i] = np.float32(multiplier * np.log10(max(least, np.float64(source[i]) / reference)))
    return 0


@cache
def preemphasis_step(in_dtype: str, out_dtype: str) -> Compiled:
    """Context: 0 input addresses, 1 output addresses, 2 elements int64[samples], 3 coefficients float32[samples], 4 border."""
    view_in, view_out, convert = view(in_dtype), view(out_dtype), converter("float32", out_dtype)

    @step_variant(in_dtype, out_dtype)
    def preemphasis(context, sample, thread):
        count = load_i64(load_i64(context + 16) + 8 * sample)
        if count == 0:
            return 0
        source = view_in(load_i64(load_i64(context) + 8 * sample), count)
        out = view_out(load_i64(load_i64(context + 8) + 8 * sample), count)
        coefficient, border = load_f32(load_i64(context + 24) + 4 * sample), load_i64(context + 32)
        before = np.float32(0)
        if border == 1 or (border == 2 and count == 1):
            before = np.float32(source[0])
        elif border == 2:
            before = np.float32(source[1])
        out[0] = convert(np.float32(source[0]) - coefficient * before)
        for i in range(1, count):
            out[i] = convert(np.float32(source[i]) - coefficient * np.float32(source[i - 1]))
        return 0

    return preemphasis


@cache
def nonsilent_step(dtype: str) -> Compiled:
    """Context: 0 input addresses, 1 and 2 output addresses, 3 samples int64[samples], 4 window, 5 interval between new sums,
    6 float64[2]: reference (0: the largest), part of it that is the cut-off."""
    elements, exact = view(dtype), not dtype.startswith("float")

    @inlined
    def power_after(source, total, i, window, interval):
        """The sum of squares of the window that ends with sample i, from that of the window before it."""
        if not exact and interval > 0 and (i - window + 1) % interval == 0:
            total = 0.0
            for k in range(i - window + 1, i + 1):
                total += np.float64(source[k]) * np.float64(source[k])
            return total
        new, old = np.float64(source[i]), np.float64(source[i - window])
        return total + new * new - old * old

    @step_variant(dtype)
    def nonsilent(context, sample, thread):
        length = load_i64(load_i64(context + 24) + 8 * sample)
        source = elements(load_i64(load_i64(context) + 8 * sample), length)
        window, interval, numbers = min(load_i64(context + 32), length), load_i64(context + 40), load_i64(context + 48)
        reference, part = load_f64(numbers), load_f64(numbers + 8)
        begun = 0.0
        for i in range(window):
            begun += np.float64(source[i]) * np.float64(source[i])
        if reference == 0.0:
            total = begun
            reference = total / window
            for i in range(window, length):
                total = power_after(source, total, i, window, interval)
                reference = max(reference, total / window)
        cut_off = np.float64(np.float32(reference * part))
        first, last, total = np.int64(-1), np.int64(-1), begun
        for i in range(window - 1, length):
            if i >= window:
                total = power_after(source, total, i, window, interval)
            if total / window >= cut_off:
                first = np.int64(i - window + 1) if first < 0 else first
                last = np.int64(i)
        store_i32(load_i64(load_i64(context + 8) + 8 * sample), np.int32(max(first, np.int64(0))))
        store_i32(load_i64(load_i64(context + 16) + 8 * sample), np.int32(last - first + 1 if first >= 0 else 0))
        return 0

    return nonsilent


def make_decibels_step(source: Batch, output: Batch, multiplier: float, reference: float, least: float) -> Step:
    """The step for a batch; a `reference` of 0 means each sample's largest element."""
    counts, numbers = _elements(source), np.array([multiplier, reference, least])
    values = (source.addresses, output.addresses, counts, numbers)
    table, keep = context_table(values)

    def launches() -> list[Launch]:
        count, largest = len(counts), int(counts.max(initial=0))
        parts = 0 if reference else max(1, min(-(-largest // _PART), _MOST_PARTS))
        context: tuple[Entry, ...] = (*values, count, parts, Scratch(4 * count * parts) if parts else 0)
        searched = [Launch(Kernel(_SOURCE, "peaks", _FLOATS), context, grid_of(parts, count, 1))] if parts else []
        return [*searched, Launch(Kernel(_SOURCE, "decibels", _FLOATS), context, grid_of(largest, count))]

    return Step(decibels_step.address, table, no_explanation, keep=keep, launches=launches)


_FLOATS = ("IN", "float32"), ("OUT", "float32")


def make_preemphasis_step(source: Batch, output: Batch, coefficients: np.ndarray, border: int) -> Step:
    """The step for a batch; coefficients float32[samples], border 0 zero, 1 clamp, 2 reflect."""
    compiled_step = preemphasis_step(storage_dtype(source.dtype).name, storage_dtype(output.dtype).name)
    counts = _elements(source)
    values = (source.addresses, output.addresses, counts, np.ascontiguousarray(coefficients), border)
    table, keep = context_table(values)
    names = ("IN", element_type(storage_dtype(source.dtype))), ("OUT", element_type(storage_dtype(output.dtype)))
    grid = grid_of(int(counts.max(initial=0)), len(counts))
    step = Step(compiled_step.address, table, no_explanation, keep=keep)
    step.launches = lambda: [Launch(Kernel(_SOURCE, "preemphasis", names), (*values, len(counts)), grid)]
    return step


def make_nonsilent_step(source: Batch, outputs: list[Batch], window: int, interval: int, reference: float, part: float) -> Step:
    """The step for a batch of signals; the cut-off is `part` of the reference power, 0 for each sample's largest."""
    counts, numbers, dtype = _elements(source), np.array([reference, part]), storage_dtype(source.dtype)
    starts, lengths = outputs
    values = (source.addresses, starts.addresses, lengths.addresses, counts, window, interval, numbers)
    table, keep = context_table(values)

    def launches() -> list[Launch]:
        count, longest = len(counts), int(counts.max(initial=1))
        stretch = _stretch(dtype, window, interval) or longest
        stretches = -(-longest // stretch)
        scratch = Scratch(8 * count * stretches), Scratch(16 * count * stretches)
        context: tuple[Entry, ...] = (*values, stretch, stretches, count, *scratch)
        names = ("IN", element_type(dtype)), ("OUT", element_type(dtype))
        grids = {"powers": grid_of(stretches, count), "borders": grid_of(stretches, count), "region": grid_of(count, 1)}
        if reference:
            del grids["powers"]
        return [Launch(Kernel(_SOURCE, name, names), context, grid) for name, grid in grids.items()]

    return Step(nonsilent_step(dtype.name).address, table, no_explanation, keep=keep, launches=launches)


def _stretch(dtype: np.dtype, window: int, interval: int) -> int:
    """Windows after which a sum may begin anew without another result than the compiled step's; 0: never."""
    if dtype.kind == "f":
        return max(interval, 0)
    exact = dtype.itemsize <= 2 and window < 1 << 20  # sums of squares are integers below 2^53
    return max(window, _PART) if exact else 0


def _elements(source: Batch) -> np.ndarray:
    return np.ascontiguousarray(source.shapes.prod(axis=1), np.int64)
