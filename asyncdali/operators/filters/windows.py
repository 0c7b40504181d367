"""One-dimensional windows of separable filters."""

from __future__ import annotations

from functools import lru_cache

import numpy as np


@lru_cache(1024)
def gaussian_window(sigma: float, size: int) -> np.ndarray:
    """Normalised gaussian weights, float32[size]; shared, so read-only. `size` is odd."""
    one, width = np.float32(1), np.float32(sigma)
    distances = np.arange(-(size // 2), 0, dtype=np.float32)
    # Rounded where DALI rounds, so that the weights are the same bits.
    exponents = -(distances * distances) * (np.float32(0.5) / (width * width))
    half = np.exp(exponents.astype(np.float64)).astype(np.float32)
    total = half.cumsum(dtype=np.float32)[-1] * np.float32(2) + one if len(half) else one
    side = half * (one / total)
    window = np.concatenate([side, [one / total], side[::-1]])
    window.flags.writeable = False
    return window


@lru_cache(64)
def smoothing_window(size: int) -> np.ndarray:
    """Binomial weights, not normalised, float32[size]; shared, so read-only."""
    window = np.ones(1)
    for _ in range(size - 1):
        window = np.convolve(window, [1, 1])
    return _frozen(window)


@lru_cache(64)
def second_derivative_window(size: int) -> np.ndarray:
    """(1, -2, 1) smoothed by binomial weights to `size` elements, float32[size]; shared, so read-only."""
    return _frozen(np.convolve([1, -2, 1], smoothing_window(size - 2)))


def _frozen(window: np.ndarray) -> np.ndarray:
    window = window.astype(np.float32)
    window.flags.writeable = False
    return window
