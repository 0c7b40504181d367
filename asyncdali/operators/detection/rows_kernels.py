"""Copies rows of all samples of a batch in one call."""

from __future__ import annotations

from ...compiled.intrinsics import copy_bytes, load_i32, load_i64
from ...compiled.step import compiled


@compiled(7)
def gather_rows(samples, firsts, counts, indices, sources, targets, row_bytes):
    """Row k of a sample's output is its input's row ``indices[first + k]``; samples begin at `firsts` int64[samples] in all three arrays.

    counts   int64[samples]: rows of each sample's output
    indices  int32[all]
    """
    for i in range(samples):
        first = load_i64(firsts + 8 * i)
        for k in range(first, first + load_i64(counts + 8 * i)):
            copy_bytes(targets + row_bytes * k, sources + row_bytes * (first + load_i32(indices + 4 * k)), row_bytes)
    return 0
