"""Batches of equal cost: which samples of a window belong together, and in which order their batches come.

A batch costs its longest sample times its number of samples, because shorter samples are padded. The window's samples are sorted by their
length; from the longest on, each batch takes as many neighbours as its budget allows. So only the last batch of a window, that of the
shortest samples, may be much cheaper than the others. The order of the batches is that of a hash, so lengths are mixed over time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np


def grouped(lengths: np.ndarray, budget: float, most: int) -> list[np.ndarray]:
    """The batches of a window, as numbers of its samples in ascending order; from the longest to the shortest.

    Each batch has at most `most` samples, and costs at most `budget`. A sample that is longer than the budget is a batch of its own.
    """
    order = np.argsort(-lengths, kind="stable")
    found, at = [], 0
    while at < len(order):
        longest = float(lengths[order[at]])
        count = most if longest * most <= budget else max(1, int(budget // longest))
        found.append(np.sort(order[at : at + count]))
        at += count
    return found


def shuffled(count: int, key: Sequence[int]) -> list[int]:
    """An order of `count` batches: a function of `key` alone."""
    def rank(number: int) -> bytes:
        return hashlib.blake2b(np.array([*key, number], np.int64).tobytes(), digest_size=8).digest()

    return sorted(range(count), key=rank)


def planned(lengths: np.ndarray, budget: float, most: int, key: Sequence[int]) -> list[np.ndarray]:
    """The batches of a window in the order in which they are given."""
    batches = grouped(lengths, budget, most)
    return [batches[number] for number in shuffled(len(batches), key)]


def cost(lengths: np.ndarray) -> tuple[float, float]:
    """The sum of the lengths of a batch, and the cost with padding."""
    return float(lengths.sum()), float(lengths.max(initial=0)) * len(lengths)
