"""A position in a reader's order of samples, for tests that go through an order batch by batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from asyncdali.sampling.order import OrderPosition, SampleOrder, Shuffling
from asyncdali.sampling.sharding import Sharding


def order_of(count: int, num_shards: int = 1, shard_id: int = 0, **options: Any) -> SampleOrder:
    """An order; `options` are fields of :class:`Sharding` and of :class:`Shuffling`."""
    sharding = {name: options.pop(name) for name in ("stick_to_shard", "pad_last_batch") if name in options}
    return SampleOrder(count, Sharding(num_shards, shard_id, **sharding), Shuffling(**options))


class Cursor:
    """An order of `count` samples in batches of `batch_size`, and the current position. `options` are those of :func:`order_of`."""

    def __init__(self, count: int, batch_size: int, *args: Any, **options: Any):
        self.order, self.batch_size = order_of(count, *args, **options), batch_size
        self.position: OrderPosition = self.order.start

    def next_batch(self) -> np.ndarray:
        return self.take(self.batch_size)

    def take(self, samples: int) -> np.ndarray:
        indices, self.position = self.order.take(self.position, samples)
        return indices

    def restore(self, position: Sequence[int]) -> None:
        self.position = self.order.checked(position)

    def meta(self) -> dict[str, int]:
        return self.order.meta()
