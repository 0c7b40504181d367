"""Where the samples of a batch lie in its memory."""

from __future__ import annotations

from ...compiled.intrinsics import load_i64, store_i64
from ...compiled.step import compiled


@compiled(6, brief=True)
def lay_out(shapes, count, ndim, itemsize, limit, places):
    """Samples of `shapes` (address of int64[count, ndim]), one after another: writes where each begins to `places` (address of
    int64[count]), and returns how many bytes they have together; -1 if a sample has `limit` bytes or more: the caller looks at it."""
    at = 0
    for k in range(count):
        store_i64(places + 8 * k, at)
        size = itemsize
        for axis in range(ndim):
            extent = load_i64(shapes + 8 * (k * ndim + axis))
            if extent >= limit or size >= limit:  # before a product wraps around
                return -1
            size *= extent
        if size >= limit:
            return -1
        at += size
    return at
