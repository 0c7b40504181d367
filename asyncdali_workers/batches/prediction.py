"""Predicts the next batch of a source from the last ones: the number of slices, and the size of its slot."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np

from ..shared.schema import LONGEST_TEXT, BatchSchema
from ..shared.system import PAGE, up
from ..source import Source

EqualSamples: TypeAlias = tuple[np.dtype, tuple[int, ...]]
"""Type and shape of all samples of a batch."""

LEAST_CAPACITY = 1 << 20
SLICE_NANOSECONDS = 2_000_000
"""Target duration of a slice: long compared with the overhead of a slice, short compared with the wait of another worker."""
WORTH_SHARING = 60_000
"""Quicker batches (nanoseconds) are not divided among workers."""
SLOW_SAMPLE = 10_000_000
"""Samples that take this long (nanoseconds) may differ as much, so each one is a slice."""
SLICES_PER_WORKER = 8
SPARE = 1.25

Key = list[Any]
"""Per output: (dtype, shape) if all samples of a batch have them, else None."""


class Prediction:
    """The prediction for one source."""

    def __init__(self, source: Source, workers: int, numbers: Iterator[int]):
        self._source = source
        self._workers = workers
        self._numbers = numbers
        self.schema: BatchSchema | None = None
        self.parts = source.slices(workers)
        self.per_part = -(-source.batch_size // self.parts)
        hint = source.bytes_per_sample_hint or 0
        self.part_capacity = up(max(LEAST_CAPACITY, self.per_part * hint), PAGE)
        self._area_per_sample = 0.0
        self._sample_time: float | None = None  # nanoseconds
        self._changes = 0

    # -------------------------------------------------------------------------------------------------------------- memory

    @property
    def end(self) -> int:
        """Offset of the area in a slot."""
        return PAGE if self.schema is None else self.schema.end

    def slot_size(self) -> int:
        batch = self._source.batch_size
        area = up(int(self._area_per_sample * SPARE * batch), PAGE) + PAGE * self.parts
        return max(self.end + area, PAGE + self.parts * self.part_capacity)

    def learn(self, key: Key, as_expected: bool, needed: float) -> None:
        """Learn from a batch: its outputs, whether they were as predicted, and the most bytes per sample that went into areas."""
        self._area_per_sample = max(needed, 0.97 * self._area_per_sample)
        if as_expected:
            return
        if self.schema is not None:
            self._changes += 1
            if self._changes > 4:  # often wrong: predict only what two consecutive batches have in common
                key = [new if new == old else None for new, old in zip(key, self.schema.key)] if len(key) == len(self.schema.key) else key
        if self.schema is None or key != self.schema.key:
            made = BatchSchema(next(self._numbers), key, self._source.batch_size)
            self.schema = made if len(made.text) <= LONGEST_TEXT else None

    # -------------------------------------------------------------------------------------------------------------- slices

    def slices(self, queued: int) -> int:
        """Number of slices of the next batch, with `queued` tasks waiting."""
        count = self._source.batch_size
        if self._source.kind != "samples":
            return 1
        if self._sample_time is None:
            return self.parts
        work = self._sample_time * count
        if work < WORTH_SHARING or (work < SLICE_NANOSECONDS / 4 and queued >= self._workers):
            return 1
        wanted = int(work / SLICE_NANOSECONDS)
        if queued >= self._workers and self._sample_time < SLOW_SAMPLE:
            wanted = min(wanted, SLICES_PER_WORKER * self._workers)  # no worker is idle, and every slice wakes the parent
        return min(count, max(self.parts, wanted), 512)

    def took(self, nanoseconds: int, samples: int) -> None:
        if samples:
            measured = nanoseconds / samples
            self._sample_time = measured if self._sample_time is None else 0.8 * self._sample_time + 0.2 * measured


def cut(count: int, slices: int) -> list[tuple[int, int]]:
    """(first, count) of contiguous slices. Their sizes differ by at most one; longer slices come first."""
    size, longer = divmod(count, slices)
    first, found = 0, []
    for number in range(slices):
        length = size + (number < longer)
        found.append((first, length))
        first += length
    return found


def key_of(dtype: np.dtype, shape: tuple[int, ...] | None) -> EqualSamples | None:
    return None if shape is None else (dtype, shape)
