"""Products of affine transforms, in float32, rounded after each operation: the sums that DALI computes, bit for bit."""

from __future__ import annotations

import numpy as np

from ...compiled.intrinsics import load_f32, store_f32
from ...compiled.step import compiled


@compiled(7)
def multiply(second, second_step, first, first_step, out, count, axes):
    """Write to `out` the transforms float32[count, axes, axes + 1] that apply `first`, then `second`.

    `first_step` and `second_step` are the bytes from one matrix to the next; 0: all transforms use the same matrix.
    """
    row = 4 * (axes + 1)
    for _ in range(count):
        for i in range(axes):
            for j in range(axes + 1):
                total = np.float32(0)
                for k in range(axes):
                    total += load_f32(second + i * row + 4 * k) * load_f32(first + k * row + 4 * j)
                if j == axes:
                    total += load_f32(second + i * row + 4 * axes)
                store_f32(out + i * row + 4 * j, total)
        second, first, out = second + second_step, first + first_step, out + axes * row
    return 0
