"""The indices that take the place of bad ones: a pure function of (seed, position, sample, attempt), and of which indices are bad."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from ...sampling.order import OrderPosition, SampleOrder

MOST_ATTEMPTS = 64
"""Replacements in a row that may be bad for one sample."""


class NoReplacement(Exception):
    """So many replacements of one sample are bad that the cause is not the data."""


def replacement(seed: int, position: Sequence[int], sample: int, attempt: int, count: int) -> int:
    """A number from 0 to ``count - 1``: replacement `attempt` (from 1) of a sample of the iteration at `position`.

    The first 8 bytes of BLAKE2b over the numbers, modulo `count`. Ranks, restarts and processes get the same one.
    """
    numbers = np.array([seed & (1 << 63) - 1, *map(int, position), sample, attempt], np.uint64)
    return int.from_bytes(hashlib.blake2b(numbers.tobytes(), digest_size=8).digest(), "little") % count


class Replacing:
    """The replacements of one reader.

    Args:
        order: the reader's order of samples.
        seed: its seed.
        from_shard: whether replacements come from the shard that the iteration reads. Otherwise they come from the whole data set.
        left_out: indices that are known to be bad. The set grows.
    """

    def __init__(self, order: SampleOrder, seed: int, from_shard: bool, left_out: set[int]):
        self._order, self._seed, self._from_shard = order, seed, from_shard
        self.left_out = left_out

    def applied(self, position: OrderPosition, indices: np.ndarray) -> np.ndarray:
        """The indices of a whole iteration that begins at `position`, with replacements for those that are left out."""
        if not self.left_out:
            return indices
        bad = [k for k, index in enumerate(indices.tolist()) if index in self.left_out]
        if not bad:
            return indices
        replaced = indices.copy()
        for k in bad:
            replaced[k] = self._instead(position, k)
        replaced.flags.writeable = False
        return replaced

    def _instead(self, position: OrderPosition, sample: int) -> int:
        count = self._order.shard_size(position.epoch) if self._from_shard else self._order.count
        for attempt in range(1, MOST_ATTEMPTS + 1):
            number = replacement(self._seed, position, sample, attempt, count)
            index = self._order.member(position.epoch, number) if self._from_shard else number
            if index not in self.left_out:
                return index
        raise NoReplacement(f"{MOST_ATTEMPTS} samples in a row that were to replace sample {sample} are bad, too")
