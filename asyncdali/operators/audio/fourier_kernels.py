"""The steps of spectrogram and power_spectrum.

Lengths with a plan (:class:`RealTransform`) are transformed in float32, several windows at a time (``real_fourier_kernels``). Other lengths
are transformed one by one as convolutions in float64.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from ...batch import Batch
from ...compiled.intrinsics import load_i64, smaller, store_i64, view_f32, view_f64
from ...compiled.step import Compiled, inlined, step, step_variant
from ...device.launch import BLOCK, Entry, Kernel, Launch, Scratch
from ..base import Step, context_table, no_explanation
from .fourier import RealTransform, Transform
from .real_fourier_kernels import lane_count, plan_table, real_transforms

_SOURCE = Path(__file__).with_name("fourier_kernels.cu")
_SHARED = 32768  # bytes of complex numbers that a block keeps in shared memory
_MOST_BLOCKS = 512  # of those that need memory of their own


@inlined
def _radix_two(data, n, roots_at, size):
    """In place, data float64[2 n] as (re, im) pairs; `roots_at` has the roots of unity of a transform of length `size`, a multiple of n."""
    roots = view_f64(roots_at, size)
    j = 0
    for i in range(1, n):
        bit = n >> 1
        while j & bit:
            j ^= bit
            bit >>= 1
        j |= bit
        if i < j:
            re, im = data[2 * i], data[2 * i + 1]
            data[2 * i], data[2 * i + 1] = data[2 * j], data[2 * j + 1]
            data[2 * j], data[2 * j + 1] = re, im
    half = 1
    while half < n:
        stride = size // (2 * half)
        for begin in range(0, n, 2 * half):
            for k in range(half):
                wr, wi = roots[2 * k * stride], roots[2 * k * stride + 1]
                a, b = 2 * (begin + k), 2 * (begin + k + half)
                re, im = data[b] * wr - data[b + 1] * wi, data[b] * wi + data[b + 1] * wr
                data[b], data[b + 1] = data[a] - re, data[a + 1] - im
                data[a], data[a + 1] = data[a] + re, data[a + 1] + im
        half *= 2


@inlined
def transform(table, data_at):
    """The transform of n real numbers, which lie at every second place of the scratch at `data_at`; see ``fourier.Transform``.

    The result lies there as (re, im) pairs.
    """
    n, m = load_i64(table), load_i64(table + 8)
    roots, chirp_at, kernel_at = load_i64(table + 16), load_i64(table + 24), load_i64(table + 32)
    data = view_f64(data_at, 2 * m)
    chirp, kernel = view_f64(chirp_at, 2 * n), view_f64(kernel_at, 2 * m)
    for k in range(n):
        x = data[2 * k]
        data[2 * k], data[2 * k + 1] = x * chirp[2 * k], x * chirp[2 * k + 1]
    for k in range(2 * n, 2 * m):
        data[k] = 0.0
    _radix_two(data, m, roots, m)
    # The inverse transform as the conjugate of the transform of the conjugate.
    for k in range(m):
        re, im = data[2 * k], data[2 * k + 1]
        wr, wi = kernel[2 * k], kernel[2 * k + 1]
        data[2 * k], data[2 * k + 1] = re * wr - im * wi, -(re * wi + im * wr)
    _radix_two(data, m, roots, m)
    for k in range(n):
        re, im = data[2 * k] / m, -data[2 * k + 1] / m
        wr, wi = chirp[2 * k], chirp[2 * k + 1]
        data[2 * k], data[2 * k + 1] = re * wr - im * wi, re * wi + im * wr


@inlined
def _store_power(data, bins, out, first, stride, power):
    for k in range(bins):
        square = data[2 * k] * data[2 * k] + data[2 * k + 1] * data[2 * k + 1]
        out[first + k * stride] = np.float32(square if power == 2 else np.sqrt(square))


# Context of both spectrogram steps: int64 each. The plan is that of a RealTransform or of a Transform; scratch is an offset.
(INPUTS, OUTPUTS, SIZES, PLAN, WEIGHTS, WEIGHT_COUNT, HOP, BEFORE, REFLECT, POWER, TIME_MAJOR, SCRATCH) = range(0, 12 * 8, 8)
# Context of both power_spectrum steps.
(_INPUTS, _OUTPUTS, _SIZES, _PLAN, _POWER, _SCRATCH) = range(0, 6 * 8, 8)
_SCRATCH_FIELD, _AXIS_SCRATCH_FIELD = SCRATCH // 8, _SCRATCH // 8


@inlined
def _sample_at(source, i, length, reflect):
    """Number `i` of a signal; outside it is reflected, or 0."""
    if 0 <= i < length:
        return source[i]
    if reflect == 0 or length <= 0:
        return np.float32(0)
    period = 2 * (length - 1) if length > 1 else 1
    i = i % period
    i = i + period if i < 0 else i
    return source[period - i if i >= length else i]


@step
def spectrogram_step(context, sample, thread):
    """Windows of any length, one by one."""
    sizes = load_i64(context + SIZES) + 16 * sample
    length, windows = load_i64(sizes), load_i64(sizes + 8)
    source = view_f32(load_i64(load_i64(context + INPUTS) + 8 * sample), length)
    table, window_length, hop = load_i64(context + PLAN), load_i64(context + WEIGHT_COUNT), load_i64(context + HOP)
    weights, before, reflect = view_f32(load_i64(context + WEIGHTS), window_length), load_i64(context + BEFORE), load_i64(context + REFLECT)
    n = load_i64(table)
    bins = n // 2 + 1
    out = view_f32(load_i64(load_i64(context + OUTPUTS) + 8 * sample), bins * windows)
    at = load_i64(thread) + load_i64(context + SCRATCH)
    data = view_f64(at, 2 * load_i64(table + 8))
    power, time_major = load_i64(context + POWER), load_i64(context + TIME_MAJOR) != 0
    for w in range(windows):
        for k in range(window_length):
            value = np.float64(_sample_at(source, w * hop - before + k, length, reflect))
            data[2 * k] = value * np.float64(weights[k])
        for k in range(window_length, n):
            data[2 * k] = 0.0
        transform(table, at)
        _store_power(data, bins, out, w * bins if time_major else w, 1 if time_major else windows, power)
    return 0


def _scratch_bytes(n: int, window_length: int) -> int:
    """Memory of a step that makes real transforms: the numbers, a block of results, windows at the borders, where each window begins."""
    count = lane_count(n)
    return 4 * count * (n + n // 2 + 1 + -(-window_length // 16) * 16) + 8 * count


@cache
def real_spectrogram_step(count: int) -> Compiled:
    """`count` windows at a time; weights hold a factor of 1/2, see ``fourier.RealTransform``."""
    f = real_transforms(count)
    load_windows, transform_lanes, store_powers = f.load_windows, f.transform, f.store_powers
    write_rows, write_columns, size = f.write_rows, f.write_columns, f.size

    @step_variant(count)
    def spectrogram(context, sample, thread):
        sizes = load_i64(context + SIZES) + 16 * sample
        length, windows = load_i64(sizes), load_i64(sizes + 8)
        begin = load_i64(load_i64(context + INPUTS) + 8 * sample)
        source, out = view_f32(begin, length), load_i64(load_i64(context + OUTPUTS) + 8 * sample)
        plan, used, hop = load_i64(context + PLAN), load_i64(context + WEIGHT_COUNT), load_i64(context + HOP)
        before, reflect, weights = load_i64(context + BEFORE), load_i64(context + REFLECT), load_i64(context + WEIGHTS)
        root, time_major = load_i64(context + POWER) == 1, load_i64(context + TIME_MAJOR) != 0
        n = load_i64(plan)
        bins = n // 2 + 1
        data = load_i64(thread) + load_i64(context + SCRATCH)
        block = data + n * size
        borders = block + bins * size
        pointers = borders + (used + 15) // 16 * 16 * size
        for first in range(0, windows, count):
            valid = smaller(windows - first, count)
            for k in range(count):
                at = (first + k if k < valid else first) * hop - before
                if at >= 0 and at + used <= length:
                    store_i64(pointers + 8 * k, begin + 4 * at)
                else:
                    border = borders + k * 4 * used
                    copied = view_f32(border, used)
                    for i in range(used):
                        copied[i] = _sample_at(source, at + i, length, reflect)
                    store_i64(pointers + 8 * k, border)
            load_windows(plan, data, pointers, used, weights)
            transform_lanes(plan, data)
            if valid == count and not time_major:
                store_powers(plan, data, out + 4 * first, 4 * windows, root)
            else:
                store_powers(plan, data, block, size, root)
                if time_major:
                    write_rows(bins, block, out + 4 * first * bins, 4 * bins, valid)
                else:
                    write_columns(bins, block, out + 4 * first, 4 * windows, valid)
        return 0

    return spectrogram


@step
def power_spectrum_step(context, sample, thread):
    """Rows of any length along an axis, one by one."""
    sizes = load_i64(context + _SIZES) + 24 * sample
    outer, length, inner = load_i64(sizes), load_i64(sizes + 8), load_i64(sizes + 16)
    table, power = load_i64(context + _PLAN), load_i64(context + _POWER)
    n = load_i64(table)
    bins = n // 2 + 1
    source = view_f32(load_i64(load_i64(context + _INPUTS) + 8 * sample), outer * length * inner)
    out = view_f32(load_i64(load_i64(context + _OUTPUTS) + 8 * sample), outer * bins * inner)
    at = load_i64(thread) + load_i64(context + _SCRATCH)
    data = view_f64(at, 2 * load_i64(table + 8))
    for o in range(outer):
        for i in range(inner):
            for k in range(n):
                data[2 * k] = np.float64(source[(o * length + k) * inner + i]) if k < length else 0.0
            transform(table, at)
            _store_power(data, bins, out, o * bins * inner + i, inner, power)
    return 0


@cache
def real_power_spectrum_step(count: int) -> Compiled:
    """`count` rows at a time: neighbours along the inner axes, or, without these, along the outer ones. Weights are 1/2."""
    f = real_transforms(count)
    load_windows, load_columns, transform_lanes, store_powers = f.load_windows, f.load_columns, f.transform, f.store_powers
    write_rows, write_columns, size = f.write_rows, f.write_columns, f.size

    @step_variant(count)
    def power_spectrum(context, sample, thread):
        sizes = load_i64(context + _SIZES) + 24 * sample
        outer, length, inner = load_i64(sizes), load_i64(sizes + 8), load_i64(sizes + 16)
        plan, root = load_i64(context + _PLAN), load_i64(context + _POWER) == 1
        n = load_i64(plan)
        bins, used = n // 2 + 1, smaller(n, length)
        source, out = load_i64(load_i64(context + _INPUTS) + 8 * sample), load_i64(load_i64(context + _OUTPUTS) + 8 * sample)
        data = load_i64(thread) + load_i64(context + _SCRATCH)
        block = data + n * size
        weights = block + bins * size
        pointers = weights + (n + 15) // 16 * 16 * size
        if inner == 1:
            halves = view_f32(weights, used)
            for i in range(used):
                halves[i] = np.float32(0.5)
            for first in range(0, outer, count):
                valid = smaller(outer - first, count)
                for k in range(count):
                    store_i64(pointers + 8 * k, source + 4 * length * (first + k if k < valid else first))
                load_windows(plan, data, pointers, used, weights)
                transform_lanes(plan, data)
                store_powers(plan, data, block, size, root)
                write_rows(bins, block, out + 4 * first * bins, 4 * bins, valid)
            return 0
        for o in range(outer):
            for first in range(0, inner, count):
                valid = smaller(inner - first, count)
                load_columns(plan, data, source + 4 * (o * length * inner + first), 4 * inner, used, valid)
                transform_lanes(plan, data)
                to = out + 4 * (o * bins * inner + first)
                if valid == count:
                    store_powers(plan, data, to, 4 * inner, root)
                else:
                    store_powers(plan, data, block, size, root)
                    write_columns(bins, block, to, 4 * inner, valid)
        return 0

    return power_spectrum


def compile_spectrogram(plan: Transform | RealTransform) -> None:
    """Compile the step that a plan needs."""
    (real_spectrogram_step(lane_count(plan.length)) if isinstance(plan, RealTransform) else spectrogram_step).compile()


def compile_power_spectrum(plan: Transform | RealTransform) -> None:
    """Compile the step that a plan needs."""
    (real_power_spectrum_step(lane_count(plan.length)) if isinstance(plan, RealTransform) else power_spectrum_step).compile()


def make_spectrogram_step(
    source: Batch, output: Batch, lengths: np.ndarray, windows: np.ndarray, plan: Transform | RealTransform, weights: np.ndarray, *,
    hop: int, before: int, reflect: bool, power: int, time_major: bool,
) -> Step:  # fmt: skip
    """The step for a batch of signals of `lengths`, of which `windows` windows are taken; see the step."""
    sizes = np.ascontiguousarray(np.stack([lengths, windows], axis=1), np.int64)
    weights = weights if isinstance(plan, Transform) else weights * np.float32(0.5)
    tables = plan.table if isinstance(plan, Transform) else plan_table(plan)
    values = (source.addresses, output.addresses, sizes, tables, weights, len(weights), hop, before, reflect, power, time_major, 0)
    table, keep = context_table(values)

    def launches() -> list[Launch]:
        count, most = len(sizes), int(windows.max(initial=1))
        blocks, scratch = (min(most, 65535), min(count, 65535)), Scratch(0)
        complex_bytes, made = (16, plan.made) if isinstance(plan, Transform) else (8, plan.half)
        if made * complex_bytes > _SHARED:
            down = min(count, _MOST_BLOCKS)
            blocks = min(most, max(_MOST_BLOCKS // max(down, 1), 1)), down
            scratch = Scratch(complex_bytes * made * blocks[0] * blocks[1])
        entries: tuple[Entry, ...]
        if isinstance(plan, Transform):
            entries = (plan.made, plan.roots, plan.chirp, plan.kernel, 0)
        else:
            entries = (plan.places, plan.radices, plan.twiddles, plan.turns, len(plan.radices))
        context: tuple[Entry, ...] = (
            source.addresses, output.addresses, sizes, plan.length, *entries, weights, len(weights), hop, before, int(reflect), power,
            int(time_major), count, scratch if scratch.size else 0,
        )  # fmt: skip
        kernel = "spectrogram" if isinstance(plan, Transform) else "real_spectrogram"
        return [Launch(Kernel(_SOURCE, kernel), context, blocks, max(32, min(BLOCK, made // 2)))]

    if isinstance(plan, Transform):
        step = Step(spectrogram_step.address, table, no_explanation, 8 * plan.scratch, _SCRATCH_FIELD, (*keep, plan))
    else:
        function = real_spectrogram_step(lane_count(plan.length)).address
        step = Step(function, table, no_explanation, _scratch_bytes(plan.length, len(weights)), _SCRATCH_FIELD, (*keep, plan))
    step.launches = launches
    return step


def make_power_spectrum_step(source: Batch, output: Batch, axis: int, plan: Transform | RealTransform, power: int) -> Step:
    """The step for a batch that is transformed along `axis`."""
    shapes = source.shapes
    parts = [shapes[:, :axis].prod(axis=1), shapes[:, axis], shapes[:, axis + 1 :].prod(axis=1)]
    sizes = np.ascontiguousarray(np.stack(parts, axis=1), np.int64)
    if isinstance(plan, RealTransform):
        table, keep = context_table((source.addresses, output.addresses, sizes, plan_table(plan), power, 0))
        function, scratch = real_power_spectrum_step(lane_count(plan.length)).address, _scratch_bytes(plan.length, plan.length)
    else:
        table, keep = context_table((source.addresses, output.addresses, sizes, plan.table, power, 0))
        function, scratch = power_spectrum_step.address, 8 * plan.scratch
    return Step(function, table, no_explanation, scratch, _AXIS_SCRATCH_FIELD, (*keep, plan))
