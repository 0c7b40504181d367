"""Picking pixels of masks at random."""

from __future__ import annotations

from functools import cache

import numpy as np

from ...compiled.intrinsics import address, load_f32, load_i64, store_i64
from ...compiled.step import Compiled, inlined, step_variant
from ..arrays.convert_kernels import storage, view
from ..random.random_distributions_kernels import new_stream, up_to
from ..random.random_streams_kernels import open_stream

_U = np.uint64
_SAMPLE_STRIDE = _U(65537)
_BLOCK = 256

# Context table: 0 mask addresses, 1 shapes int64[samples, axes], 2 axes, 3 output addresses, 4 foreground int64[samples], 5 values or
# thresholds float32[samples], 6 whether they are values, 7 key, 8 hi, 9 lo, 10 phase.


@cache
def mask_pixel_step(dtype: str) -> Compiled:
    """The step for the numpy name of a dtype."""
    elements, itemsize = view(dtype), storage(dtype).itemsize

    @inlined
    def is_foreground(element, bound, by_value):
        return np.float64(element) == bound if by_value else np.float64(element) > bound

    @step_variant(dtype)
    def mask_pixel(context, sample, thread):
        axes = load_i64(context + 16)
        shape, out = load_i64(context + 8) + 8 * axes * sample, load_i64(load_i64(context + 24) + 8 * sample)
        count = 1
        for k in range(axes):
            count *= load_i64(shape + 8 * k)
        mask = elements(load_i64(load_i64(context) + 8 * sample), count)
        bound, by_value = np.float64(load_f32(load_i64(context + 40) + 4 * sample)), load_i64(context + 48) != 0
        stream = new_stream()
        hi = _U(load_i64(context + 64)) + _SAMPLE_STRIDE * _U(sample)
        open_stream(stream, _U(load_i64(context + 56)), hi, _U(load_i64(context + 72)), _U(load_i64(context + 80)))
        matching = 0
        if load_i64(load_i64(context + 32) + 8 * sample) != 0:
            for i in range(count):
                matching += 1 if is_foreground(mask[i], bound, by_value) else 0
        if matching == 0:
            for k in range(axes):
                store_i64(out + 8 * k, up_to(stream, load_i64(shape + 8 * k) - 1))
            return 0
        left, pixel = up_to(stream, matching - 1), np.int64(-1)
        while pixel + _BLOCK < count:  # whole blocks first, which are counted by vectors
            inside, first = 0, pixel + 1
            block = elements(address(mask) + itemsize * first, _BLOCK)
            for i in range(_BLOCK):
                inside += 1 if is_foreground(block[i], bound, by_value) else 0
            if left < inside:
                break
            left -= inside
            pixel += _BLOCK
        while left >= 0:
            pixel += 1
            left -= 1 if is_foreground(mask[pixel], bound, by_value) else 0
        for k in range(axes - 1, -1, -1):
            store_i64(out + 8 * k, pixel % load_i64(shape + 8 * k))
            pixel //= load_i64(shape + 8 * k)
        return 0

    return mask_pixel
