"""Shards: contiguous parts of a list of samples, one for each process."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sharding:
    """The parts of a data set, and the order in which a reader reads them.

    Args:
        num_shards, shard_id: the data set is divided into `num_shards` parts whose sizes differ by at most one; reading starts with part
            `shard_id`.
        stick_to_shard: read the same shard in every epoch instead of moving to the next.
        pad_last_batch: at a shard's end, fill the batch with the last delivered sample, and deliver the same number of batches for every
            shard.
    """

    num_shards: int = 1
    shard_id: int = 0
    stick_to_shard: bool = False
    pad_last_batch: bool = False

    def check(self, count: int) -> None:
        """Raise ValueError if `count` samples cannot be divided into these shards."""
        if self.num_shards < 1:
            raise ValueError(f"num_shards is {self.num_shards}; it must be at least 1")
        if not 0 <= self.shard_id < self.num_shards:
            raise ValueError(f"shard_id is {self.shard_id}; with num_shards={self.num_shards} it must be from 0 to {self.num_shards - 1}")
        if self.num_shards > count:
            raise ValueError(f"the data set has {count} samples, fewer than num_shards={self.num_shards}; every shard needs at least one")


def shard_bounds(count: int, num_shards: int, shard: int) -> tuple[int, int]:
    """First and end position of shard `shard` of `num_shards` in a list of `count` samples. Sizes of shards differ by at most one."""
    return count * shard // num_shards, count * (shard + 1) // num_shards
