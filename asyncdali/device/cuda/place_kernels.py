"""Computes the places of the samples of a batch in its memory."""

from __future__ import annotations

from ...compiled.intrinsics import load_i64, store_i64
from ...compiled.step import compiled


@compiled(6, brief=True)
def lay_out(shapes, count, ndim, itemsize, limit, places):
    """Place samples of `shapes` (address of int64[count, ndim]) one after another. Writes their offsets to `places` (address of
    int64[count]).

    Returns the total number of bytes; -1 if a sample has `limit` bytes or more, which the caller must check."""
    at = 0
    for k in range(count):
        store_i64(places + 8 * k, at)
        size = itemsize
        for axis in range(ndim):
            extent = load_i64(shapes + 8 * (k * ndim + axis))
            if extent >= limit or size >= limit:  # before a product overflows
                return -1
            size *= extent
        if size >= limit:
            return -1
        at += size
    return at
