"""Compiled step of to_decibels."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...batch import Batch
from ...compiled.intrinsics import load_f64, load_i64
from ...compiled.step import inlined, step
from ...compiled.vectors import lanes, widest
from ...device.launch import Kernel, Launch, Scratch, grid_of
from ..base import Step, no_explanation
from .to_decibels_logarithm_kernels import log10_of
from .to_decibels_tables import DECIBEL_NUMBERS, DECIBELS, DECIBELS_GPU

_SOURCE = Path(__file__).with_suffix(".cu")
_FLOATS = ("IN", "float32"), ("OUT", "float32")
_PART, _MOST_PARTS = 8192, 64  # Size of the parts of a sample that a block searches for its largest element, and the most parts.

decibel, number_at = DECIBELS.at, DECIBEL_NUMBERS.at

_WIDTH = widest() // 4  # Lanes of float32; as float64 they fill two registers.
_f32, _f64 = lanes("float32", _WIDTH), lanes("float64", _WIDTH)
_load, _store, _load_some, _store_some = _f32.load, _f32.store, _f32.load_some, _f32.store_some
_splat, _larger, _largest_lane = _f32.splat, _f32.larger, _f32.largest
_real, _larger_real, _widened, _narrowed, _log10 = _f64.splat, _f64.larger, _f32.converted(_f64), _f64.converted(_f32), log10_of(_WIDTH)


@inlined
def _largest(source, count):
    """The largest of `count` float32, at least 0. NaN is ignored."""
    zero = _splat(np.float32(0))
    found = zero
    for i in range(0, count, _WIDTH):
        found = _larger(_load_some(source + 4 * i, count - i, zero), found)
    return _largest_lane(found)


@step
def decibels_step(context, sample, thread):
    """Computed in float64."""
    count, numbers = load_i64(load_i64(context + decibel.counts) + 8 * sample), load_i64(context + decibel.numbers)
    source, out = load_i64(load_i64(context + decibel.inputs) + 8 * sample), load_i64(load_i64(context + decibel.outputs) + 8 * sample)
    multiplier, least = load_f64(numbers + number_at.multiplier), load_f64(numbers + number_at.least)
    reference = load_f64(numbers + number_at.reference)
    if reference == 0.0:
        reference = np.float64(_largest(source, count))
        reference = 1.0 if reference == 0.0 else reference
    by, base, lowest, one = _real(multiplier), _real(reference), _real(least), _splat(np.float32(1))
    whole = count - count % _WIDTH
    for i in range(0, whole, _WIDTH):
        _store(out + 4 * i, _narrowed(by * _log10(_larger_real(_widened(_load(source + 4 * i)) / base, lowest))))
    if whole < count:
        ratio = _widened(_load_some(source + 4 * whole, count - whole, one)) / base
        _store_some(out + 4 * whole, _narrowed(by * _log10(_larger_real(ratio, lowest))), count - whole)
    return 0


def make_decibels_step(source: Batch, output: Batch, multiplier: float, reference: float, least: float) -> Step:
    """The step for a batch; a `reference` of 0 means each sample's largest element."""
    counts = np.ascontiguousarray(source.shapes.prod(axis=1), np.int64)
    numbers = np.array(DECIBEL_NUMBERS.entries(multiplier=multiplier, reference=reference, least=least), np.float64)
    values = {"inputs": source.addresses, "outputs": output.addresses, "counts": counts, "numbers": numbers}
    table, keep = DECIBELS.make(**values)

    def launches() -> list[Launch]:
        count, largest = len(counts), int(counts.max(initial=0))
        parts = 0 if reference else max(1, min(-(-largest // _PART), _MOST_PARTS))
        entries = DECIBELS_GPU.entries(**values, samples=count, parts=parts, peaks=Scratch(4 * count * parts) if parts else 0)
        searched = [Launch(Kernel(_SOURCE, "peaks", _FLOATS), entries, grid_of(parts, count, 1))] if parts else []
        return [*searched, Launch(Kernel(_SOURCE, "decibels", _FLOATS), entries, grid_of(largest, count))]

    return Step(decibels_step.address, table, no_explanation, keep=keep, launches=launches)
