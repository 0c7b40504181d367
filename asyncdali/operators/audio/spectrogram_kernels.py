"""The steps of spectrogram and power_spectrum.

Lengths with a plan (:class:`RealTransform`) are transformed in float32, several windows at a time (``spectrogram_fourier_kernels``). Other
lengths are transformed one by one as convolutions in float64.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...batch import Batch
from ...compiled.intrinsics import load_i64, smaller, store_i64, view_f32, view_f64
from ...compiled.job_tables import THREAD
from ...compiled.step import Compiled, inlined, step, step_variant
from ...device.launch import BLOCK, Kernel, Launch, Scratch
from ..base import Step, no_explanation
from .spectrogram_dense_fourier_kernels import dense_power_spectrum_step
from .spectrogram_dense_fourier_kernels import scratch_bytes as dense_scratch_bytes
from .spectrogram_fourier import DenseTransform, RealTransform, Transform
from .spectrogram_fourier_kernels import lane_count, plan_table, real_transforms
from .spectrogram_fourier_tables import (  # fmt: skip
    POWER_SPECTRUM,
    REAL_SPECTROGRAM_GPU,
    REAL_TRANSFORM,
    ROW_SIZES,
    SIGNAL_SIZES,
    SPECTROGRAM,
    SPECTROGRAM_GPU,
    TRANSFORM,
)

at, spectrum, record = SPECTROGRAM.at, POWER_SPECTRUM.at, THREAD.at
plan_at, real_at, sizes_at, rows_at = TRANSFORM.at, REAL_TRANSFORM.at, SIGNAL_SIZES.at, ROW_SIZES.at

_SOURCE = Path(__file__).with_name("spectrogram_kernels.cu")
_SHARED = 32768  # Bytes of complex numbers that a block keeps in shared memory.
_TOGETHER = 8  # Most windows that a block transforms together: 8 numbers of the output are a sector of memory.
_MOST_BLOCKS = 512  # Most blocks of a launch whose transforms do not fit into shared memory.


@inlined
def _radix_two(data, n, roots_at, size):
    """Transform float64[2 n] in place, as (re, im) pairs. `roots_at`: roots of unity of a transform of length `size`, a multiple of n."""
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
    """Transform n real numbers, which lie at every second place of the scratch at `data_at`; see ``spectrogram_fourier.Transform``.

    The result is stored there as (re, im) pairs.
    """
    n, m = load_i64(table + plan_at.length), load_i64(table + plan_at.made)
    roots, chirp_at, kernel_at = load_i64(table + plan_at.roots), load_i64(table + plan_at.chirp), load_i64(table + plan_at.kernel)
    data = view_f64(data_at, 2 * m)
    chirp, kernel = view_f64(chirp_at, 2 * n), view_f64(kernel_at, 2 * m)
    for k in range(n):
        x = data[2 * k]
        data[2 * k], data[2 * k + 1] = x * chirp[2 * k], x * chirp[2 * k + 1]
    for k in range(2 * n, 2 * m):
        data[k] = 0.0
    _radix_two(data, m, roots, m)
    # The inverse transform is the conjugate of the transform of the conjugate.
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


@inlined
def _sample_at(source, i, length, reflect):
    """Number `i` of a signal. Outside, the signal is reflected, or 0."""
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
    """Transform windows of any length, one by one."""
    sizes = load_i64(context + at.sizes) + sizes_at.size * sample
    length, windows = load_i64(sizes + sizes_at.length), load_i64(sizes + sizes_at.windows)
    source = view_f32(load_i64(load_i64(context + at.inputs) + 8 * sample), length)
    table, window_length, hop = load_i64(context + at.plan), load_i64(context + at.weight_count), load_i64(context + at.hop)
    weights = view_f32(load_i64(context + at.weights), window_length)
    before, reflect = load_i64(context + at.before), load_i64(context + at.reflect)
    n = load_i64(table + plan_at.length)
    bins = n // 2 + 1
    out = view_f32(load_i64(load_i64(context + at.outputs) + 8 * sample), bins * windows)
    work = load_i64(thread + record.scratch) + load_i64(context + at.scratch)
    data = view_f64(work, 2 * load_i64(table + plan_at.made))
    power, time_major = load_i64(context + at.power), load_i64(context + at.time_major) != 0
    for w in range(windows):
        for k in range(window_length):
            value = np.float64(_sample_at(source, w * hop - before + k, length, reflect))
            data[2 * k] = value * np.float64(weights[k])
        for k in range(window_length, n):
            data[2 * k] = 0.0
        transform(table, work)
        _store_power(data, bins, out, w * bins if time_major else w, 1 if time_major else windows, power)
    return 0


def _scratch_bytes(n: int, window_length: int) -> int:
    """Scratch of a step of real transforms: the numbers, a block of results, windows at the borders, the address of each window."""
    count = lane_count(n)
    return 4 * count * (n + n // 2 + 1 + -(-window_length // 16) * 16) + 8 * count


@cache
def real_spectrogram_step(count: int) -> Compiled:
    """`count` windows at a time. Weights include a factor of 1/2, see ``spectrogram_fourier.RealTransform``."""
    f = real_transforms(count)
    load_windows, transform_lanes, store_powers = f.load_windows, f.transform, f.store_powers
    write_rows, write_columns, size = f.write_rows, f.write_columns, f.size

    @step_variant(count)
    def spectrogram(context, sample, thread):
        sizes = load_i64(context + at.sizes) + sizes_at.size * sample
        length, windows = load_i64(sizes + sizes_at.length), load_i64(sizes + sizes_at.windows)
        begin = load_i64(load_i64(context + at.inputs) + 8 * sample)
        source, out = view_f32(begin, length), load_i64(load_i64(context + at.outputs) + 8 * sample)
        plan, used, hop = load_i64(context + at.plan), load_i64(context + at.weight_count), load_i64(context + at.hop)
        before, reflect, weights = load_i64(context + at.before), load_i64(context + at.reflect), load_i64(context + at.weights)
        root, time_major = load_i64(context + at.power) == 1, load_i64(context + at.time_major) != 0
        n = load_i64(plan + real_at.length)
        bins = n // 2 + 1
        data = load_i64(thread + record.scratch) + load_i64(context + at.scratch)
        block = data + n * size
        borders = block + bins * size
        pointers = borders + (used + 15) // 16 * 16 * size
        for first in range(0, windows, count):
            valid = smaller(windows - first, count)
            for k in range(count):
                place = (first + k if k < valid else first) * hop - before
                if place >= 0 and place + used <= length:
                    store_i64(pointers + 8 * k, begin + 4 * place)
                else:
                    border = borders + k * 4 * used
                    copied = view_f32(border, used)
                    for i in range(used):
                        copied[i] = _sample_at(source, place + i, length, reflect)
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
    """Transform rows of any length along an axis, one by one."""
    sizes = load_i64(context + spectrum.sizes) + rows_at.size * sample
    outer, length, inner = load_i64(sizes + rows_at.outer), load_i64(sizes + rows_at.length), load_i64(sizes + rows_at.inner)
    table, power = load_i64(context + spectrum.plan), load_i64(context + spectrum.power)
    n = load_i64(table + plan_at.length)
    bins = n // 2 + 1
    source = view_f32(load_i64(load_i64(context + spectrum.inputs) + 8 * sample), outer * length * inner)
    out = view_f32(load_i64(load_i64(context + spectrum.outputs) + 8 * sample), outer * bins * inner)
    work = load_i64(thread + record.scratch) + load_i64(context + spectrum.scratch)
    data = view_f64(work, 2 * load_i64(table + plan_at.made))
    for o in range(outer):
        for i in range(inner):
            for k in range(n):
                data[2 * k] = np.float64(source[(o * length + k) * inner + i]) if k < length else 0.0
            transform(table, work)
            _store_power(data, bins, out, o * bins * inner + i, inner, power)
    return 0


@cache
def real_power_spectrum_step(count: int) -> Compiled:
    """`count` rows at a time: neighbours along the inner axes or, without inner axes, along the outer ones. Weights are 1/2."""
    f = real_transforms(count)
    load_windows, load_columns, transform_lanes, store_powers = f.load_windows, f.load_columns, f.transform, f.store_powers
    write_rows, write_columns, size = f.write_rows, f.write_columns, f.size

    @step_variant(count)
    def power_spectrum(context, sample, thread):
        sizes = load_i64(context + spectrum.sizes) + rows_at.size * sample
        outer, length, inner = load_i64(sizes + rows_at.outer), load_i64(sizes + rows_at.length), load_i64(sizes + rows_at.inner)
        plan, root = load_i64(context + spectrum.plan), load_i64(context + spectrum.power) == 1
        n = load_i64(plan + real_at.length)
        bins, used = n // 2 + 1, smaller(n, length)
        source = load_i64(load_i64(context + spectrum.inputs) + 8 * sample)
        out = load_i64(load_i64(context + spectrum.outputs) + 8 * sample)
        data = load_i64(thread + record.scratch) + load_i64(context + spectrum.scratch)
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


def compile_power_spectrum(plan: Transform | RealTransform | DenseTransform) -> None:
    """Compile the step that a plan needs."""
    if isinstance(plan, DenseTransform):
        dense_power_spectrum_step.compile()
        return
    (real_power_spectrum_step(lane_count(plan.length)) if isinstance(plan, RealTransform) else power_spectrum_step).compile()


class Framing(NamedTuple):
    """How a spectrogram divides signals into windows, and what it returns; see the table SPECTROGRAM."""

    hop: int
    before: int
    reflect: bool
    power: int
    time_major: bool


def make_spectrogram_step(
    source: Batch, output: Batch, sizes: np.ndarray, plan: Transform | RealTransform, weights: np.ndarray, framing: Framing
) -> Step:
    """The step for a batch of signals with SIGNAL_SIZES `sizes`; see the step."""
    weights = weights if isinstance(plan, Transform) else weights * np.float32(0.5)
    tables = plan.table if isinstance(plan, Transform) else plan_table(plan)
    values = {
        "inputs": source.addresses, "outputs": output.addresses, "sizes": sizes, "weights": weights, "weight_count": len(weights),
        **{name: int(value) for name, value in framing._asdict().items()},
    }  # fmt: skip
    table, keep = SPECTROGRAM.make(**values, plan=tables, scratch=0)

    def launches() -> list[Launch]:
        count, most = len(sizes), int(sizes[:, SIGNAL_SIZES.word.windows].max(initial=1))
        if isinstance(plan, Transform):
            together, window_bytes = 1, 16 * plan.made
        else:
            window_bytes = 8 * (plan.half + plan.half // 16 + 1)
            together = max(1, min(_TOGETHER, _SHARED // window_bytes))
        groups = -(-most // together)
        blocks, scratch = (min(groups, 65535), min(count, 65535)), Scratch(0)
        if (plan.made * 16 if isinstance(plan, Transform) else plan.half * 8) > _SHARED:
            down = min(count, _MOST_BLOCKS)
            blocks = min(groups, max(_MOST_BLOCKS // max(down, 1), 1)), down
            scratch = Scratch(together * window_bytes * blocks[0] * blocks[1])
        shared = {**values, "samples": count, "memory": scratch if scratch.size else 0}
        if isinstance(plan, Transform):
            entries = SPECTROGRAM_GPU.entries(
                **shared, length=plan.length, made=plan.made, roots=plan.roots, chirp=plan.chirp, kernel=plan.kernel
            )
            return [Launch(Kernel(_SOURCE, "spectrogram"), entries, blocks, max(32, min(BLOCK, plan.made // 2)))]
        entries = REAL_SPECTROGRAM_GPU.entries(**shared, places=plan.places, twiddles=plan.twiddles, turns=plan.turns)
        kernel = Kernel(_SOURCE, "real_spectrogram", (("HALF", plan.half), ("TOGETHER", together)))
        return [Launch(kernel, entries, blocks, BLOCK)]

    if isinstance(plan, Transform):
        step = Step(spectrogram_step.address, table, no_explanation, 8 * plan.scratch, SPECTROGRAM.word.scratch, (*keep, plan))
    else:
        function = real_spectrogram_step(lane_count(plan.length)).address
        step = Step(function, table, no_explanation, _scratch_bytes(plan.length, len(weights)), SPECTROGRAM.word.scratch, (*keep, plan))
    step.launches = launches
    return step


def make_power_spectrum_step(
    source: Batch, output: Batch, axis: int, plan: Transform | RealTransform | DenseTransform, power: int, chosen: np.ndarray
) -> Step:
    """The step that transforms the samples `chosen` (bool[samples]) along `axis`."""
    shapes = source.shapes
    sizes, word = ROW_SIZES.zeros(len(source)), ROW_SIZES.word
    sizes[:, word.outer], sizes[:, word.inner] = shapes[:, :axis].prod(axis=1), shapes[:, axis + 1 :].prod(axis=1)
    sizes[:, word.length] = shapes[:, axis]
    sizes[~chosen, word.outer] = 0  # Other samples have no rows.
    tables = plan_table(plan) if isinstance(plan, RealTransform) else plan.table
    table, keep = POWER_SPECTRUM.make(inputs=source.addresses, outputs=output.addresses, sizes=sizes, plan=tables, power=power, scratch=0)
    if isinstance(plan, RealTransform):
        function, scratch = real_power_spectrum_step(lane_count(plan.length)).address, _scratch_bytes(plan.length, plan.length)
    elif isinstance(plan, DenseTransform):
        function, scratch = dense_power_spectrum_step.address, dense_scratch_bytes(plan.length)
    else:
        function, scratch = power_spectrum_step.address, 8 * plan.scratch
    return Step(function, table, no_explanation, scratch, POWER_SPECTRUM.word.scratch, (*keep, plan))
