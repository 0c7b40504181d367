"""Computes the places of the samples of a batch in its memory."""

from __future__ import annotations

from .intrinsics import load_i64, store_i64
from .step import compiled


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


@compiled(4, brief=True)
def to_addresses(places, count, start, addresses):
    """Write the addresses of `count` places in memory at `start`. `addresses` may be `places`. A third of the time of ``numpy.add``."""
    for k in range(count):
        store_i64(addresses + 8 * k, load_i64(places + 8 * k) + start)
    return 0
