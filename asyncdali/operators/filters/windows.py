"""One-dimensional windows of separable filters."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ...compiled.addresses import Within
from .gaussian_blur_tables import WINDOW, WINDOWS


class FilterWindows(NamedTuple):
    """The windows of a batch.

    weights    float32[]: the weights of all windows, one after another
    described  WINDOWS of each term of each sample, int64[samples * terms, words]: index of each window's first weight, and its size
    most       elements of the largest window
    """

    weights: np.ndarray
    described: np.ndarray
    most: int

    @property
    def placed(self) -> Within:
        """The same with addresses instead of indices, for compiled steps."""
        return Within(self.described, self.weights, slice(WINDOWS.word.depth_weights, None, WINDOW.words))


def together(windows: Sequence[Sequence[np.ndarray]]) -> FilterWindows:
    """Windows given as arrays: three per term of each sample, along depth, height and width. Equal objects are stored once."""
    distinct = {id(window): window for three in windows for window in three}
    sizes = [len(window) for window in distinct.values()]
    first = dict(zip(distinct, (np.cumsum(sizes) - sizes).tolist()))
    described = np.array([[(first[id(window)], len(window)) for window in three] for three in windows], np.int64)
    described = described.reshape(-1, WINDOWS.words)
    weights = np.concatenate(list(distinct.values())).astype(np.float32) if distinct else np.ones(1, np.float32)
    return FilterWindows(weights, described, max(sizes, default=1))


def repeated(windows: FilterWindows, count: int) -> FilterWindows:
    """The windows of one sample for `count` samples."""
    return windows._replace(described=np.tile(windows.described, (count, 1)))


@lru_cache(64)
def smoothing_window(size: int) -> np.ndarray:
    """Binomial weights, not normalised: float32[size], shared and read-only."""
    window = np.ones(1)
    for _ in range(size - 1):
        window = np.convolve(window, [1, 1])
    return _frozen(window)


@lru_cache(64)
def second_derivative_window(size: int) -> np.ndarray:
    """(1, -2, 1) smoothed by binomial weights to `size` elements: float32[size], shared and read-only."""
    return _frozen(np.convolve([1, -2, 1], smoothing_window(size - 2)))


def _frozen(window: np.ndarray) -> np.ndarray:
    window = window.astype(np.float32)
    window.flags.writeable = False
    return window
