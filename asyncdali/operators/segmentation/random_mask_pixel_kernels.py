"""Random selection of pixels of masks."""

from __future__ import annotations

from functools import cache

import numpy as np

from ...compiled import kinds
from ...compiled.convert_kernels import storage, view
from ...compiled.intrinsics import address, c_function, larger, load_f32, load_i64, store_i64
from ...compiled.step import Compiled, inlined, step_variant
from ...sampling.random_distributions_kernels import new_stream, up_to
from ...sampling.stream_kernels import open_sample
from .random_mask_pixel import MASK_PIXEL

_U = np.uint64
_BLOCK = 256
_nextafter = c_function("nextafter", kinds.float64, kinds.float64, kinds.float64)

at = MASK_PIXEL.at


@cache
def mask_pixel_step(dtype: str) -> Compiled:
    """The step for the NumPy name of a dtype."""
    kind = storage(dtype)
    elements, itemsize = view(dtype), kind.itemsize
    narrow = kind.kind in "iu" and itemsize <= 4
    least, most = (np.iinfo(kind).min, np.iinfo(kind).max) if narrow else (-np.inf, np.inf)
    compared = kind.type if narrow else np.float64  # Small integers in their own type: one instruction makes sixteen comparisons.

    @inlined
    def some(bound, by_value):
        """Whether elements can be in the foreground; otherwise :func:`range_of` has no valid result."""
        if by_value:
            return np.float64(least) <= bound and bound <= np.float64(most) and (not narrow or np.floor(bound) == bound)
        return bound < np.float64(most)

    @inlined
    def range_of(bound, by_value):
        """The least and the greatest element of the foreground."""
        if by_value:
            return compared(bound), compared(bound)
        first = np.floor(bound) + 1 if narrow else _nextafter(bound, np.float64(np.inf))
        return compared(larger(first, np.float64(least))), compared(most)

    @inlined
    def is_foreground(element, first, last):
        return (compared(element) >= first) & (compared(element) <= last)

    @step_variant(dtype)
    def mask_pixel(context, sample, thread):
        axes = load_i64(context + at.axes)
        shape, out = load_i64(context + at.shapes) + 8 * axes * sample, load_i64(load_i64(context + at.outputs) + 8 * sample)
        count = 1
        for k in range(axes):
            count *= load_i64(shape + 8 * k)
        mask = elements(load_i64(load_i64(context + at.inputs) + 8 * sample), count)
        bound, by_value = np.float64(load_f32(load_i64(context + at.bounds) + 4 * sample)), load_i64(context + at.by_value) != 0
        may_match = some(bound, by_value)
        first_value, last_value = range_of(bound if may_match else np.float64(0), by_value)
        stream = new_stream()
        open_sample(stream, context + at.position_key, sample)
        matching = 0
        if load_i64(load_i64(context + at.foreground) + 8 * sample) != 0 and may_match:
            for i in range(count):
                matching += 1 if is_foreground(mask[i], first_value, last_value) else 0
        if matching == 0:
            for k in range(axes):
                store_i64(out + 8 * k, up_to(stream, load_i64(shape + 8 * k) - 1))
            return 0
        left, pixel = up_to(stream, matching - 1), np.int64(-1)
        while pixel + _BLOCK < count:  # Whole blocks first; vectors count their elements.
            inside, first = 0, pixel + 1
            block = elements(address(mask) + itemsize * first, _BLOCK)
            for i in range(_BLOCK):
                inside += 1 if is_foreground(block[i], first_value, last_value) else 0
            if left < inside:
                break
            left -= inside
            pixel += _BLOCK
        while left >= 0:
            pixel += 1
            left -= 1 if is_foreground(mask[pixel], first_value, last_value) else 0
        for k in range(axes - 1, -1, -1):
            store_i64(out + 8 * k, pixel % load_i64(shape + 8 * k))
            pixel //= load_i64(shape + 8 * k)
        return 0

    return mask_pixel
