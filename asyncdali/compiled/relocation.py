"""Copies of tables whose addresses change: one call in place of four numpy operations per repeated plan."""

from __future__ import annotations

from .intrinsics import load_i64, store_i64
from .step import compiled


@compiled(6, brief=True)
def relocate(block, words, sources, places, bases, count):
    """Copy `words` 64-bit words from `sources` to `block`. Then add ``bases[places[2 k + 1]]`` to word ``places[2 k]``, for k < count."""
    for k in range(words):
        store_i64(block + 8 * k, load_i64(sources + 8 * k))
    for k in range(count):
        word = block + 8 * load_i64(places + 16 * k)
        store_i64(word, load_i64(word) + load_i64(bases + 8 * load_i64(places + 16 * k + 8)))
    return 0
