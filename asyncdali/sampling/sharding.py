"""Shards: contiguous parts of a list of samples, one for each process."""

from __future__ import annotations


def shard_bounds(count: int, num_shards: int, shard: int) -> tuple[int, int]:
    """First and end position of shard `shard` of `num_shards` in a list of `count` samples. Sizes of shards differ by at most one."""
    return count * shard // num_shards, count * (shard + 1) // num_shards
