"""Gaussian windows of a whole batch.

A blur whose sigma is drawn per sample has 512 windows in a batch of 256. One Python call per window took 85 % of the planning of a
pipeline with two random views; here the windows of a batch take two calls.
"""

from __future__ import annotations

import math

import numpy as np

from ...compiled.intrinsics import larger, load_f32, load_i64, store_f32, store_i64
from ...compiled.step import compiled
from .gaussian_blur_tables import GAUSSIANS, WINDOW, WINDOWS
from .planes_tables import AXES

_at, _window = GAUSSIANS.at, WINDOW.at
_WINDOWS_BYTES, _WINDOW_BYTES, _AXES = WINDOWS.size, WINDOW.size, len(AXES)
MOST_TAPS = 1 << 20


@compiled(1, brief=True)
def lay_out_windows(table):
    """Decide sigma and size of every window, and place its weights. A window shares the weights of an equal window: the one before, or the
    one of the same axis in the row before.

    Returns the number of weights, or -1 - k if the k-th pair (row, axis) of sigma and size is refused.
    """
    axes, sigmas = load_i64(table + _at.axes), load_i64(table + _at.sigmas)
    given_sigmas, given_sizes = load_i64(table + _at.given_sigmas), load_i64(table + _at.given_sizes)
    sigmas_row, sigmas_axis = load_i64(table + _at.sigmas_step_row), load_i64(table + _at.sigmas_step_axis)
    sizes_row, sizes_axis = load_i64(table + _at.sizes_step_row), load_i64(table + _at.sizes_step_axis)
    described = load_i64(table + _at.described)
    total, most = 1, 1  # Weight 0 belongs to missing axes.
    for row in range(load_i64(table + _at.rows)):
        for axis in range(_AXES - axes):
            place = described + _WINDOWS_BYTES * row + _WINDOW_BYTES * axis
            store_i64(place + _window.weights, 0)
            store_i64(place + _window.taps, 1)
        for axis in range(axes):
            k = row * axes + axis
            sigma = load_f32(given_sigmas + row * sigmas_row + axis * sigmas_axis)
            size = load_i64(given_sizes + row * sizes_row + axis * sizes_axis)
            if not (sigma >= 0 and sigma < np.float32(np.inf)) or size < 0 or (sigma == 0 and size == 0):
                return -1 - k
            if size == 0:
                reach = np.float32(3) * sigma
                size = 2 * np.int64(math.ceil(reach)) + 1 if reach < MOST_TAPS else np.int64(2 * MOST_TAPS + 1)
            if size > MOST_TAPS or size % 2 == 0:
                return -1 - k
            if sigma == 0:
                sigma = np.float32(((size - 1) // 2 - 1) * 0.3 + 0.8)
            place = described + _WINDOWS_BYTES * row + _WINDOW_BYTES * (_AXES - axes + axis)
            first = total
            before, above = place - _WINDOW_BYTES, place - _WINDOWS_BYTES
            if axis > 0 and load_f32(sigmas + 4 * (k - 1)) == sigma and load_i64(before + _window.taps) == size:
                first = load_i64(before + _window.weights)
            elif row > 0 and load_f32(sigmas + 4 * (k - axes)) == sigma and load_i64(above + _window.taps) == size:
                first = load_i64(above + _window.weights)
            else:
                total += size
            most = larger(most, size)
            store_f32(sigmas + 4 * k, sigma)
            store_i64(place + _window.weights, first)
            store_i64(place + _window.taps, size)
    store_i64(table + _at.most, most)
    return total


@compiled(1, brief=True)
def fill_windows(table):
    """Compute the weights of the windows that :func:`lay_out_windows` has placed: normalised, rounded like DALI."""
    axes, sigmas = load_i64(table + _at.axes), load_i64(table + _at.sigmas)
    described, weights = load_i64(table + _at.described), load_i64(table + _at.weights)
    store_f32(weights, np.float32(1))
    filled = 1
    for row in range(load_i64(table + _at.rows)):
        for axis in range(axes):
            place = described + _WINDOWS_BYTES * row + _WINDOW_BYTES * (_AXES - axes + axis)
            first, size = load_i64(place + _window.weights), load_i64(place + _window.taps)
            if first < filled:  # Another window has the same weights, which are already filled.
                continue
            filled += size
            half = size // 2
            sigma = load_f32(sigmas + 4 * (row * axes + axis))
            factor = np.float32(0.5) / (sigma * sigma)
            total = np.float32(0)
            left = weights + 4 * first
            for k in range(half):
                distance = np.float32(k - half)
                weight = np.float32(math.exp(np.float64(-(distance * distance) * factor)))
                store_f32(left + 4 * k, weight)
                total += weight
            scale = np.float32(1) / (total * np.float32(2) + np.float32(1))
            for k in range(half):
                weight = load_f32(left + 4 * k) * scale
                store_f32(left + 4 * k, weight)
                store_f32(left + 4 * (size - 1 - k), weight)
            store_f32(left + 4 * half, scale)
    return 0
