"""Sound at another sampling rate: windows, lengths, and the step that makes it of a batch."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from ..base import Step, context_table, no_explanation

_LARGEST_RATIO, _LARGEST_STRETCHED = 64, 1 << 24


def check_quality(quality: float) -> None:
    """ValueError unless `quality` is one."""
    if not 0 <= quality <= 100:
        raise ValueError(f"Resampling quality must be in [0..100] range, got {quality}")


def lobes_of(quality: float) -> int:
    """Zeros of the sinc on each side of its middle: 3 for a `quality` of 0, 16 for 50, 64 for 100."""
    return round(0.007 * quality * quality - 0.09 * quality + 3)


@cache
def window(lobes: int) -> np.ndarray:
    """A sinc in a Hann window as a table to interpolate in, float32[2 * lobes * PER_LOBE + 2]; the last entry is 0.

    (Found by resampling impulses with DALI 2.4: 32 entries per lobe, and an envelope wider by half an entry on each side.)
    """
    from .resampling_kernels import PER_LOBE

    entries = 2 * lobes * PER_LOBE + 1
    place = np.arange(entries) - lobes * PER_LOBE
    envelope = 0.5 + 0.5 * np.cos(2 * np.pi * place / entries)
    return np.append(np.sinc(place / PER_LOBE) * envelope, 0).astype(np.float32)


def resampled_length(length: int, source: float, target: float) -> int:
    """Samples that `length` of them at rate `source` are at `target`.

    ValueError where the rate of a broken header would make something enormous of them.
    """
    count = math.ceil(length * target / source)
    if target > _LARGEST_RATIO * source and count > _LARGEST_STRETCHED:
        raise ValueError(f"{length} samples at {source:g} Hz would be {count} at {target:g} Hz: its sampling rate is hardly right")
    return count


def make_step(
    sources: np.ndarray, targets: np.ndarray, lengths: np.ndarray, counts: np.ndarray, channels: np.ndarray, ratios: np.ndarray,
    quality: float, types: tuple[str, str],
) -> Step:  # fmt: skip
    """The step that resamples arrays [lengths, channels] at addresses `sources` into [counts, channels] at `targets`.

    All int64[samples], but `ratios`: input samples per output sample, float64[samples]. `types` are the names of the element types.
    """
    from .resampling_kernels import resample_launch, resample_step

    lobes = lobes_of(quality)
    lengths, counts, channels = (np.ascontiguousarray(column) for column in (lengths, counts, channels))
    values = (sources, targets, lengths, counts, channels, np.ascontiguousarray(ratios, np.float64), window(lobes), lobes)
    table, keep = context_table(values)
    step = Step(resample_step(*types).address, table, no_explanation, keep=keep)
    step.launches = lambda: [resample_launch(values, counts, channels, types)]
    return step


def compile_kernels(in_dtype: str = "float32", out_dtype: str = "float32") -> None:
    """Bring in now what resampling of one type to another needs."""
    from .resampling_kernels import resample_step

    resample_step(in_dtype, out_dtype).compile()


def resample(samples: np.ndarray, source: float, target: float, quality: float) -> np.ndarray:
    """float32[samples, channels] at another rate; ValueError as :func:`resampled_length`. The interpreter is free meanwhile."""
    from .resampling_kernels import resample_step

    if source == target or not len(samples):
        return samples
    samples = np.ascontiguousarray(samples, np.float32)
    result = np.empty((resampled_length(len(samples), source, target), samples.shape[1]), np.float32)
    numbers = np.array([[samples.ctypes.data], [result.ctypes.data], [len(samples)], [len(result)], [samples.shape[1]]])
    ratio = np.array([source / target])
    step = make_step(numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], ratio, quality, ("float32", "float32"))
    resample_step("float32", "float32")(step.context.ctypes.data, 0, 0)
    return result
