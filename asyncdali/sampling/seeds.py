"""Automatic seeds of a pipeline's operators: drawn by the C++ standard's seed sequence, as in DALI."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from .random_streams import _MASK32

SEED_TABLE_SIZE = 1024


def seed_sequence(entropy: Sequence[int], size: int) -> list[int]:
    """`size` 32-bit words from a list of 32-bit words, as the C++ standard's ``std::seed_seq::generate`` ([rand.util.seedseq])."""
    if size == 0:
        return []
    words = [0x8B8B8B8B] * size
    given = len(entropy)
    t = next(step for least, step in ((623, 11), (68, 7), (39, 5), (7, 3), (0, (size - 1) // 2)) if size >= least)
    p = (size - t) // 2
    rounds = max(given + 1, size)
    for k in range(rounds):
        i, near, far = k % size, (k + p) % size, (k + p + t) % size
        mixed = words[i] ^ words[near] ^ words[k - 1 if k <= size else i - 1]
        first = 1664525 * (mixed ^ mixed >> 27) & _MASK32
        added = given if k == 0 else i + (entropy[k - 1] & _MASK32) if k <= given else i
        second = first + added & _MASK32
        words[near] = words[near] + first & _MASK32
        words[far] = words[far] + second & _MASK32
        words[i] = second
    for k in range(rounds, rounds + size):
        i, near, far = k % size, (k + p) % size, (k + p + t) % size
        mixed = words[i] + words[near] + words[i - 1] & _MASK32
        first = 1566083941 * (mixed ^ mixed >> 27) & _MASK32
        second = first - i & _MASK32
        words[near] ^= first
        words[far] ^= second
        words[i] = second
    return words


def seed_table(pipeline_seed: int) -> tuple[int, ...]:
    """The 1024 automatic operator seeds of a pipeline (32-bit values, given out in graph order, cyclically).

    Only the low 32 bits of `pipeline_seed` matter. A table takes about 2 ms, and programs build many pipelines with the same seed.
    """
    return _table(int(pipeline_seed) & _MASK32)


@functools.lru_cache(maxsize=16)
def _table(entropy: int) -> tuple[int, ...]:
    return tuple(seed_sequence([entropy], SEED_TABLE_SIZE))
