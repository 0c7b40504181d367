"""Sound resampling: windows, output lengths, and the step for a batch."""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import numpy as np
from asyncdali_workers import limits

from ...compiled.tables import laid_out
from .resampling_tables import RESAMPLE

_LARGEST_RATIO, _LARGEST_STRETCHED = 64, 1 << 24


def check_quality(quality: float) -> None:
    """Raise ValueError unless `quality` is valid."""
    if not 0 <= quality <= 100:
        raise ValueError(f"Resampling quality must be in [0..100] range, got {quality}")


def lobes_of(quality: float) -> int:
    """Zeros of the sinc on each side of its centre: 3 for a `quality` of 0, 16 for 50, 64 for 100."""
    return round(0.007 * quality * quality - 0.09 * quality + 3)


@cache
def window(lobes: int) -> np.ndarray:
    """A sinc in a Hann window, float32[2 * lobes * PER_LOBE + 1], for interpolation between entries.

    (DALI 2.4 was measured by resampling impulses: it has 32 entries per lobe, and an envelope wider by half an entry on each side.)
    """
    from .resampling_kernels import PER_LOBE

    entries = 2 * lobes * PER_LOBE + 1
    place = np.arange(entries) - lobes * PER_LOBE
    envelope = 0.5 + 0.5 * np.cos(2 * np.pi * place / entries)
    return (np.sinc(place / PER_LOBE) * envelope).astype(np.float32)


@cache
def _weights(lobes: int) -> np.ndarray:
    """The window as rows, float32[PER_LOBE + 2, taps]. Row p has entries p, p + PER_LOBE, ..., padded with zeros to a multiple of LANES."""
    from .resampling_kernels import LANES, PER_LOBE

    taps = -(-2 * lobes // LANES) * LANES
    rows = np.zeros((PER_LOBE + 2, taps), np.float32)
    padded = np.append(window(lobes), np.zeros(PER_LOBE, np.float32))
    for row in range(PER_LOBE + 2):
        rows[row, : 2 * lobes] = padded[row : row + 2 * lobes * PER_LOBE : PER_LOBE]
    return rows


def resampled_length(length: int, source: float, target: float) -> int:
    """The number of samples at rate `target` that `length` samples at rate `source` become.

    Raises ValueError if the rate of a broken header would make an enormous result.
    """
    count = math.ceil(length * target / source)
    if target > _LARGEST_RATIO * source and count > _LARGEST_STRETCHED:
        raise ValueError(f"{length} samples at {source:g} Hz would be {count} at {target:g} Hz: check the sampling rates")
    return count


class Signals(NamedTuple):
    """The samples of a batch: arrays [lengths, channels] become [counts, channels].

    lengths, counts, channels   int64[samples]
    ratios                      float64[samples], input samples per output sample
    """

    lengths: np.ndarray
    counts: np.ndarray
    channels: np.ndarray
    ratios: np.ndarray


def entries_of(sources: np.ndarray, targets: np.ndarray, signals: Signals, quality: float) -> tuple[object, ...]:
    """The entries of the table for arrays at addresses `sources` (int64[samples]) that are resampled into `targets`."""
    lobes = lobes_of(quality)
    lengths, counts, channels = (np.ascontiguousarray(column) for column in signals[:3])
    weights = _weights(lobes)
    ratios = np.ascontiguousarray(signals.ratios, np.float64)
    return RESAMPLE.entries(
        inputs=sources, outputs=targets, lengths=lengths, counts=counts, channels=channels, ratios=ratios, weights=weights, lobes=lobes,
        taps=weights.shape[1], samples=len(counts),
    )  # fmt: skip


def compile_kernels() -> None:
    """Import and compile now what :func:`resample` needs."""
    from .resampling_kernels import resample_step

    resample_step("float32", "float32").compile()


def resample(samples: np.ndarray, source: float, target: float, quality: float) -> np.ndarray:
    """float32[samples, channels] at another rate; ValueError as in :func:`resampled_length`. The interpreter lock is released."""
    from .resampling_kernels import resample_step

    if source == target or not len(samples):
        return samples
    samples = np.ascontiguousarray(samples, np.float32)
    length, channels = resampled_length(len(samples), source, target), samples.shape[1]
    what = f"sound resampled from {source:g} to {target:g} Hz, which has {length:,} samples"
    result: np.ndarray = limits.new_array(length * channels, np.float32, what).reshape(length, channels)
    numbers = np.array([[samples.ctypes.data], [result.ctypes.data], [len(samples)], [len(result)], [samples.shape[1]]])
    signals = Signals(numbers[2], numbers[3], numbers[4], np.array([source / target]))
    table, keep = laid_out(entries_of(numbers[0], numbers[1], signals, quality))
    resample_step("float32", "float32")(table.ctypes.data, 0, 0)
    del keep
    return result
