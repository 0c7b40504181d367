"""Picking pixels of masks at random."""

from __future__ import annotations

from functools import cache

import numpy as np

from ...compiled.intrinsics import address, load_f32, load_i64, store_i64
from ...compiled.step import Compiled, inlined, step_variant
from ..arrays.convert_kernels import storage, view
from ..random.random_distributions_kernels import new_stream, up_to
from .mask_pixel_tables import MASK_PIXEL
from .stream_kernels import open_sample

_U = np.uint64
_BLOCK = 256

at = MASK_PIXEL.at


@cache
def mask_pixel_step(dtype: str) -> Compiled:
    """The step for the numpy name of a dtype."""
    elements, itemsize = view(dtype), storage(dtype).itemsize

    @inlined
    def is_foreground(element, bound, by_value):
        return np.float64(element) == bound if by_value else np.float64(element) > bound

    @step_variant(dtype)
    def mask_pixel(context, sample, thread):
        axes = load_i64(context + at.axes)
        shape, out = load_i64(context + at.shapes) + 8 * axes * sample, load_i64(load_i64(context + at.outputs) + 8 * sample)
        count = 1
        for k in range(axes):
            count *= load_i64(shape + 8 * k)
        mask = elements(load_i64(load_i64(context + at.inputs) + 8 * sample), count)
        bound, by_value = np.float64(load_f32(load_i64(context + at.bounds) + 4 * sample)), load_i64(context + at.by_value) != 0
        stream = new_stream()
        open_sample(stream, context + at.position_key, sample)
        matching = 0
        if load_i64(load_i64(context + at.foreground) + 8 * sample) != 0:
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
