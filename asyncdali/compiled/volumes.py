"""Counts elements of batches with the interpreter lock held. numpy releases it for more than 500 numbers."""

from __future__ import annotations

from .intrinsics import load_i64
from .step import compiled


@compiled(3, brief=True)
def volume(shapes, count, ndim):
    """Total number of elements of all samples of `shapes` (int64[count, ndim])."""
    total = 0
    for k in range(count):
        elements = 1
        for axis in range(ndim):
            elements *= load_i64(shapes + 8 * (k * ndim + axis))
        total += elements
    return total
