"""Memory that is reserved for the files of a batch before their sizes are known, so each file is read as soon as it is open."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ...batch import Batch
from ...compiled.addresses import address_of
from ...types import DALIDataType
from ..base import place_aligned

_MARGIN, _FORGETTING = 1.0625, 0.98
ALIGNMENT = 64


class Aside(NamedTuple):
    """Memory for a batch.

    start, capacity  its address, a multiple of ALIGNMENT, and its size in bytes
    expected         the size of each file if all are expected to be equal, else 0. Equal files are stored in order, without gaps
    block            the array that keeps the memory alive
    """

    start: int
    capacity: int
    expected: int
    block: np.ndarray | None

    @property
    def in_order(self) -> bool:
        """Whether samples are stored in order, without gaps."""
        return self.expected != 0

    def place_rest(self, batch: Batch, left: np.ndarray, allocate: Callable[[int], np.ndarray]) -> None:
        """Memory for the samples that are `left` (bool[samples]). The other samples are in the block."""
        if left.all():
            place_aligned(batch, allocate)
            return
        rest = Batch(batch.shapes[left], DALIDataType.UINT8)
        place_aligned(rest, allocate)
        batch.addresses[left] = rest.addresses
        batch.owner = [self.block, rest.owner]


NOTHING_ASIDE = Aside(0, 0, 0, None)


class ExpectedSizes:
    """Predicts the memory for the files of a batch: the largest recent size per file, which decays slowly.

    If all files of the last batch were equal, the next files are expected to be equal, and are stored in order as one dense array.
    """

    def __init__(self) -> None:
        self._per_sample = 0.0
        self._equal = 0

    def aside(self, count: int, allocate: Callable[[int], np.ndarray]) -> Aside:
        """Memory for `count` files; none before the first batch."""
        if self._equal:
            block = allocate(self._equal * count)
            return Aside(address_of(block), len(block), self._equal, block)
        if not self._per_sample:
            return NOTHING_ASIDE
        block = allocate(int(self._per_sample * count * _MARGIN) + ALIGNMENT)
        start = address_of(block)
        skipped = -start % ALIGNMENT
        return Aside(start + skipped, len(block) - skipped, 0, block)

    def bytes_of(self, count: int) -> int:
        """Expected bytes of `count` files; 0 before the first batch."""
        return int(max(self._equal, self._per_sample * _MARGIN) * count)

    def learn(self, count: int, taken: int, equal: int) -> None:
        """A batch of `count` files has been read; it took `taken` bytes. `equal`: the size of each file, or 0."""
        if count:
            self._equal = equal
            self._per_sample = max(taken / count, self._per_sample * _FORGETTING)
