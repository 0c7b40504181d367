"""Epoch arithmetic: the number of batches of an iterator's epoch, and which samples of the last batch belong to it. No pipeline is used.

Call :meth:`over` before a batch is taken, and :meth:`advance` after it. At the end of an epoch :meth:`surplus` gives the number of batches
to discard, so that the next epoch begins at the right sample. :meth:`next_epoch` begins the next epoch. The state is a few integers
(:meth:`state`) and fits in a checkpoint.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from enum import Enum, unique
from typing import Any


@unique
class LastBatchPolicy(Enum):
    """The treatment of the last batch of an epoch when the samples do not fill it.

    FILL: the batch is delivered whole. Copies of the last sample (padded readers) or samples of the next epoch fill it. DROP: the batch is
    not delivered. PARTIAL: samples that do not belong to the epoch are cut off.
    """

    FILL = 0
    DROP = 1
    PARTIAL = 2


_MOST_EPOCHS = 10_000
"""Number of epochs that are followed to understand the state of an iterator of DALI."""


class OpenEpochs:
    """Accountant for pipelines whose sources end the epoch. Batches are delivered as they come."""

    size = -1
    """Samples per epoch, if known; see the iterators."""

    batches = 0
    """Batches of the current epoch; 0 if unknown."""

    full_batches = False
    """Whether every batch must have as many samples as the pipeline's batch size."""

    def __init__(self, step: int = 0) -> None:
        self.step = step
        self._counter = 0

    @property
    def counter(self) -> int:
        """Samples taken in this epoch, including those that the previous epoch took of it. May be set."""
        return self._counter

    @counter.setter
    def counter(self, value: int) -> None:
        self._counter = value

    def over(self) -> bool:
        """Whether all batches of the epoch were taken."""
        return False

    def advance(self) -> list[int] | None:
        """Count one batch. Returns how many samples to deliver for each pipeline; None: all samples."""
        self._counter += self.step
        return None

    def surplus(self) -> int:
        """Number of batches to discard at the end of the epoch."""
        return 0

    def own_samples(self) -> list[int] | None:
        """How many samples of the last batch belong to the epoch, for each pipeline. The others are filling. None: all belong to it."""
        return None

    def next_epoch(self) -> None:
        """Begin the next epoch."""
        self._counter = 0

    def state(self) -> dict[str, Any]:
        """The iterator's position in its epochs, as JSON data."""
        return {}

    def load(self, state: dict[str, Any]) -> None:
        """Go to the position that :meth:`state` gave. ValueError if that is impossible."""

    def load_of_dali(self, state: dict[str, Any]) -> bool:
        """Go to the position in the fields of an iterator of DALI. Returns whether a batch of the epoch was taken.

        ValueError if that is impossible.
        """
        self._counter = _integers(state, "_counter", None)[0]
        return self._counter > 0


class CountedEpochs(OpenEpochs):
    """Accountant for an epoch of `size` samples over all `pipelines` together.

    FILL without padding counts samples read beyond the end as samples of the next epoch.
    """

    full_batches = True

    def __init__(self, size: int, pipelines: int, batch_size: int, policy: LastBatchPolicy, padded: bool):
        super().__init__(pipelines * batch_size)
        self.size = size
        self._pipelines, self._batch_size = pipelines, batch_size
        self._policy, self._padded = policy, padded

    @property
    def batches(self) -> int:  # type: ignore[override]
        """Batches of an epoch that begins without samples read by the previous epoch."""
        return self.size // self.step if self._policy is LastBatchPolicy.DROP else -(-self.size // self.step)

    def over(self) -> bool:
        end = self.size - self.step + 1 if self._policy is LastBatchPolicy.DROP else self.size
        return self._counter >= end

    def advance(self) -> list[int] | None:
        self._counter += self.step
        if self._policy is not LastBatchPolicy.PARTIAL or self._counter <= self.size:
            return None
        left = self.step - (self._counter - self.size)
        return [max(0, min(self._batch_size, left - k * self._batch_size)) for k in range(self._pipelines)]

    def own_samples(self) -> list[int] | None:
        left = self.step - max(0, self._counter - self.size)
        return [max(0, min(self._batch_size, left - k * self._batch_size)) for k in range(self._pipelines)]

    def surplus(self) -> int:
        return int(self._policy is LastBatchPolicy.DROP and self._counter < self.size)

    def next_epoch(self) -> None:
        carries = self._policy is LastBatchPolicy.FILL and not self._padded
        self._counter = self._counter % self.size if carries else 0

    def state(self) -> dict[str, int]:
        return {"counter": self._counter}

    def load(self, state: dict[str, Any]) -> None:
        self._counter = _integers(state, "counter", None)[0]



class ReaderEpochs(OpenEpochs):
    """Accountant for a reader that reports the sizes of its shards. An epoch is one shard of each pipeline.

    An epoch has as many batches as the largest of all shards needs, including shards that other processes read. So all stay in step.

    Args:
        shards: sizes of all shards, without padding.
        ids: the shard of each pipeline in the first epoch.
        sticks: each pipeline reads the same shard in every epoch; otherwise it moves on to the next shard.
    """

    full_batches = True

    def __init__(self, shards: Sequence[int], ids: Sequence[int], batch_size: int, policy: LastBatchPolicy, padded: bool, sticks: bool):
        super().__init__(batch_size)
        self.shards = list(shards)
        """Sizes of all shards, without padding."""
        self._ids = list(ids)
        self._batch_size = batch_size
        self._policy, self.padded, self.sticks = policy, padded, sticks
        self._taken = 0
        self._turn = 0  # number of shards that every pipeline has moved on
        self.delivered = [0] * len(self.shards)
        """Samples of the current shard that the previous epoch has delivered already, by first shard. Checkpoints call them "ahead"."""

    @property
    def continues(self) -> bool:
        """Whether samples read beyond the end of a shard belong to the next epoch and are not read again."""
        return self._policy is LastBatchPolicy.FILL and not self.padded

    @property
    def counter(self) -> int:
        return min(self.delivered) + self._taken * self._batch_size

    @counter.setter
    def counter(self, value: int) -> None:
        self._taken = max(0, self._rounded(value - min(self.delivered)))

    def current_ids(self) -> list[int]:
        """The shard that each pipeline reads in this epoch."""
        return [(shard + self._turn) % len(self.shards) for shard in self._ids]

    def left_before_last(self) -> list[int]:
        """Samples of each pipeline's shard that were left before the last batch."""
        before = (self._taken - 1) * self._batch_size
        return [size - before for size in self._sizes(self._ids)]

    def _sizes(self, ids: Iterable[int]) -> list[int]:
        """Sizes of the current shards of readers that began with `ids`."""
        return [self.shards[(shard + self._turn) % len(self.shards)] for shard in ids]

    def current_sizes(self) -> list[int]:
        """Sizes of the current shards of readers that began with shard 0, 1, ..."""
        return self._sizes(range(len(self.shards)))

    def _rounded(self, samples: int) -> int:
        return -(-samples // self._batch_size)

    @property
    def size(self) -> int:  # type: ignore[override]
        """Samples per pipeline of the current epoch. Fewer may be delivered."""
        if self._policy is LastBatchPolicy.DROP:
            return sum(self.shards) // len(self.shards)
        largest = max(self.shards)
        if self.continues:
            largest = max(length - delivered for length, delivered in zip(self.current_sizes(), self.delivered, strict=True))
        return largest if self.padded else self._rounded(largest) * self._batch_size

    @property
    def batches(self) -> int:  # type: ignore[override]
        if self._policy is LastBatchPolicy.DROP:
            return self.size // self._batch_size
        return self._rounded(self.size)

    def over(self) -> bool:
        return self._taken >= self.batches

    def advance(self) -> list[int] | None:
        before = self._taken * self._batch_size
        self._taken += 1
        if self._policy is not LastBatchPolicy.PARTIAL:
            return None
        left = [max(0, min(self._batch_size, size - before)) for size in self._sizes(self._ids)]
        return left if min(left) < self._batch_size else None

    def own_samples(self) -> list[int] | None:
        left = zip(self.left_before_last(), [self.delivered[shard] for shard in self._ids], strict=True)
        return [max(0, min(self._batch_size, samples - delivered)) for samples, delivered in left]

    def surplus(self) -> int:
        if self._policy is not LastBatchPolicy.DROP:
            return 0
        # A padded reader ends all shards after the number of batches that the largest shard needs.
        return self._rounded(max(self.shards) if self.padded else self.size) - self._taken

    def next_epoch(self) -> None:
        read = self._taken * self._batch_size
        self._taken = 0
        while True:
            if self.continues:
                self.delivered = [
                    delivered + read - length for delivered, length in zip(self.delivered, self.current_sizes(), strict=True)
                ]
                read = 0
            if not self.sticks:
                self._turn = (self._turn + 1) % len(self.shards)
            # Batches that are larger than a shard may have delivered the whole next epoch already.
            if not self.continues or self.batches > 0:
                return

    def state(self) -> dict[str, object]:
        return {"taken": self._taken, "turn": self._turn, "ahead": list(self.delivered)}

    def load_of_dali(self, state: dict[str, Any]) -> bool:
        counter, shards = _integers(state, "_counter", None)[0], _integers(state, "_shards_id", len(self._ids))
        ahead = _integers(state, "_counter_per_gpu", len(self.shards))
        taken, turn = max(0, self._rounded(counter - min(ahead))), (shards[0] - self._ids[0]) % len(self.shards)
        if self.continues and not self.sticks:
            ahead = self._ahead_of_dali(turn, ahead, _integers(state, "_shard_sizes_per_gpu", len(self.shards)))
        self.load({"taken": taken, "turn": turn, "ahead": ahead})
        return taken > 0

    def _ahead_of_dali(self, turn: int, ahead: list[int], sizes: list[int]) -> list[int]:
        """`delivered` at a state of DALI, which pairs readers with sizes that are rolled the other way. So both are followed from the first
        epoch on, until DALI's are those of the state."""
        count = len(self.shards)
        mine, theirs, own, others = [0] * count, [0] * count, list(self.shards), list(self.shards)
        for epoch in range(_MOST_EPOCHS):
            if epoch % count == turn and theirs == ahead and others == sizes:
                return mine
            read, other = (self._rounded(max(map(operator.sub, *pair))) * self._batch_size for pair in ((own, mine), (others, theirs)))
            mine = [delivered + read - size for delivered, size in zip(mine, own, strict=True)]
            theirs = [delivered + other - size for delivered, size in zip(theirs, others, strict=True)]
            own, others = own[1:] + own[:1], others[-1:] + others[:-1]
        return ahead

    def load(self, state: dict[str, Any]) -> None:
        taken, turn = _integers(state, "taken", None)[0], _integers(state, "turn", None)[0]
        delivered = _integers(state, "ahead", len(self.shards))
        before = self._taken, self._turn, self.delivered
        self._taken, self._turn, self.delivered = taken, turn % len(self.shards), delivered
        most = self._rounded(max(self.shards))  # the maximum over all policies, as the policy may have changed
        if taken > most or (self.continues and self.batches < 1):
            self._taken, self._turn, self.delivered = before
            raise ValueError(
                f"the iterator's state is {state!r}: an epoch has at most {most} batches, and at least one of them must be left"
            )


def shard_sizes(samples: int, shards: int) -> list[int]:
    """Sizes of all shards of a data set."""
    return [samples * (k + 1) // shards - samples * k // shards for k in range(shards)]


def epoch_of(state: dict[str, object]) -> int:
    """The number of the epoch in an iterator's state. ValueError if it is invalid."""
    return _integers({"epoch": state.get("epoch", 0)}, "epoch", None)[0]


def _integers(state: dict[str, object], key: str, count: int | None) -> list[int]:
    """Integers of at least 0 under `key`: a list of `count`, or a single integer if `count` is None."""
    value = state.get(key)
    found = [value] if count is None else value
    if not isinstance(found, list) or len(found) != (count or 1) or not all(type(item) is int and item >= 0 for item in found):
        wanted = "an integer" if count is None else f"{count} integers"
        raise ValueError(f"the iterator's state has {key!r}: {value!r}; expected {wanted} of at least 0")
    return list(found)
