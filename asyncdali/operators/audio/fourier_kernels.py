"""Fourier transforms, and the steps of spectrogram and power_spectrum. Computed in float64."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...batch import Batch
from ...compiled.intrinsics import load_i64, view_f32, view_f64
from ...compiled.step import inlined, step
from ...device.launch import BLOCK, Entry, Kernel, Launch, Scratch
from ..base import Step, context_table, no_explanation
from .fourier import Transform

_SOURCE = Path(__file__).with_name("fourier_kernels.cu")
_SHARED = 2048  # complex numbers that a block keeps in shared memory
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
    for k in range(n):
        data[2 * k + 1] = 0.0
    if chirp_at == 0:
        _radix_two(data, n, roots, m)
        return
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


@step
def spectrogram_step(context, sample, thread):
    """Context: 0 input addresses, 1 output addresses, 2 samples and windows int64[samples, 2], 3 transform, 4 window function float32,
    5 its length, 6 step, 7 padding before the signal, 8 whether it is reflected, 9 power, 10 whether time is the outer axis,
    11 scratch offset."""
    sizes = load_i64(context + 16) + 16 * sample
    length, windows = load_i64(sizes), load_i64(sizes + 8)
    source = view_f32(load_i64(load_i64(context) + 8 * sample), length)
    table, window_length, hop = load_i64(context + 24), load_i64(context + 40), load_i64(context + 48)
    weights, before, reflect = view_f32(load_i64(context + 32), window_length), load_i64(context + 56), load_i64(context + 64)
    n = load_i64(table)
    bins = n // 2 + 1
    out = view_f32(load_i64(load_i64(context + 8) + 8 * sample), bins * windows)
    at = load_i64(thread) + load_i64(context + 88)
    data = view_f64(at, 2 * load_i64(table + 8))
    power, time_major = load_i64(context + 72), load_i64(context + 80) != 0
    for w in range(windows):
        for k in range(window_length):
            i = w * hop - before + k
            value = 0.0
            if 0 <= i < length:
                value = np.float64(source[i])
            elif reflect != 0 and length > 0:
                period = 2 * (length - 1) if length > 1 else 1
                i = i % period
                i = i + period if i < 0 else i
                value = np.float64(source[period - i if i >= length else i])
            data[2 * k] = value * np.float64(weights[k])
        for k in range(window_length, n):
            data[2 * k] = 0.0
        transform(table, at)
        _store_power(data, bins, out, w * bins if time_major else w, 1 if time_major else windows, power)
    return 0


@step
def power_spectrum_step(context, sample, thread):
    """Context: 0 input addresses, 1 output addresses, 2 outer, length, inner int64[samples, 3], 3 transform, 4 power, 5 scratch offset."""
    sizes = load_i64(context + 16) + 24 * sample
    outer, length, inner = load_i64(sizes), load_i64(sizes + 8), load_i64(sizes + 16)
    table, power = load_i64(context + 24), load_i64(context + 32)
    n = load_i64(table)
    bins = n // 2 + 1
    source = view_f32(load_i64(load_i64(context) + 8 * sample), outer * length * inner)
    out = view_f32(load_i64(load_i64(context + 8) + 8 * sample), outer * bins * inner)
    at = load_i64(thread) + load_i64(context + 40)
    data = view_f64(at, 2 * load_i64(table + 8))
    for o in range(outer):
        for i in range(inner):
            for k in range(n):
                data[2 * k] = np.float64(source[(o * length + k) * inner + i]) if k < length else 0.0
            transform(table, at)
            _store_power(data, bins, out, o * bins * inner + i, inner, power)
    return 0


def make_spectrogram_step(
    source: Batch, output: Batch, lengths: np.ndarray, windows: np.ndarray, plan: Transform, weights: np.ndarray, *,
    hop: int, before: int, reflect: bool, power: int, time_major: bool,
) -> Step:  # fmt: skip
    """The step for a batch of signals of `lengths`, of which `windows` windows are taken; see the step."""
    sizes = np.ascontiguousarray(np.stack([lengths, windows], axis=1), np.int64)
    values = (source.addresses, output.addresses, sizes, plan.table, weights, len(weights), hop, before, reflect, power, time_major, 0)
    table, keep = context_table(values)


    def launches() -> list[Launch]:
        count, most = len(sizes), int(windows.max(initial=1))
        blocks, scratch = (min(most, 65535), min(count, 65535)), Scratch(0)
        if plan.made > _SHARED:
            down = min(count, _MOST_BLOCKS)
            blocks = min(most, max(_MOST_BLOCKS // max(down, 1), 1)), down
            scratch = Scratch(16 * plan.made * blocks[0] * blocks[1])
        chirp: tuple[Entry, Entry] = (0, 0) if plan.chirp is None or plan.kernel is None else (plan.chirp, plan.kernel)
        context: tuple[Entry, ...] = (
            source.addresses, output.addresses, sizes, plan.length, plan.made, plan.roots, *chirp, weights, len(weights), hop, before,
            int(reflect), power, int(time_major), count, scratch if scratch.size else 0,
        )  # fmt: skip
        threads = max(32, min(BLOCK, plan.made // 2))
        return [Launch(Kernel(_SOURCE, "spectrogram"), context, blocks, threads)]

    return Step(spectrogram_step.address, table, no_explanation, 8 * plan.scratch, 11, (*keep, plan), launches=launches)


def make_power_spectrum_step(source: Batch, output: Batch, axis: int, plan: Transform, power: int) -> Step:
    """The step for a batch that is transformed along `axis`."""
    shapes = source.shapes
    parts = [shapes[:, :axis].prod(axis=1), shapes[:, axis], shapes[:, axis + 1 :].prod(axis=1)]
    sizes = np.ascontiguousarray(np.stack(parts, axis=1), np.int64)
    table, keep = context_table((source.addresses, output.addresses, sizes, plan.table, power, 0))
    return Step(power_spectrum_step.address, table, no_explanation, 8 * plan.scratch, 5, (*keep, plan))
