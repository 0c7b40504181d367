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


@compiled(8, brief=True)
def to_elements(indices, rows, words, first, step, itemsize, start, placed):
    """Copy `indices` (address of int64[rows, words]) to `placed`, with every `step`th word of a row from `first` on as the address of an
    element of `itemsize` bytes in an array at `start`. numpy releases the interpreter lock for more than 500 numbers."""
    for row in range(rows):
        for k in range(words):
            at = 8 * (row * words + k)
            value = load_i64(indices + at)
            is_index = k >= first and (k - first) % step == 0
            store_i64(placed + at, value * itemsize + start if is_index else value)
    return 0


@compiled(4, brief=True)
def to_addresses(places, count, start, addresses):
    """Write the addresses of `count` places in memory at `start`. `addresses` may be `places`. A third of the time of ``numpy.add``."""
    for k in range(count):
        store_i64(addresses + 8 * k, load_i64(places + 8 * k) + start)
    return 0
