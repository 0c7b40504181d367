"""Ends of epochs under a last-batch policy, counted in global batches. All ranks count the same, without talking to each other."""

from __future__ import annotations

import copy
from typing import Any

from ..errors import CheckpointError
from ..plugin.epochs import LastBatchPolicy, ReaderEpochs, epoch_of, shard_sizes
from ..runtime.parts import Part


class RankEpochs:
    """The position of a rank in the epochs of a reader.

    The state has the form of the framework iterators' state, so their checkpoints and those of a rank can be exchanged.
    """

    def __init__(self, meta: dict[str, int], batch_size: int, policy: LastBatchPolicy, part: Part):
        """`meta`: of the reader (``Pipeline.reader_meta``). `batch_size`: of the global batch."""
        self._meta, self._batch_size, self._policy = meta, batch_size, policy
        self._first, self._stop = part.of(batch_size)
        self._epoch = 0
        self._counts = self._fresh()
        if not self._counts.batches:
            raise ValueError(
                f"an epoch has no batch: the reader's shard has {meta['epoch_size'] // meta['number_of_shards']} samples, batch_size is "
                f"{batch_size}, last_batch_policy is {policy.name}. Give FILL or PARTIAL, or a smaller batch_size"
            )

    def _fresh(self) -> ReaderEpochs:
        meta = self._meta
        return ReaderEpochs(
            shard_sizes(meta["epoch_size"], meta["number_of_shards"]), [meta["shard_id"]], self._batch_size, self._policy,
            bool(meta["pad_last_batch"]), bool(meta["stick_to_shard"]),
        )  # fmt: skip

    def __copy__(self) -> RankEpochs:
        made = object.__new__(RankEpochs)
        made.__dict__.update(self.__dict__, _counts=copy.copy(self._counts))
        return made

    def over(self) -> bool:
        """Whether all batches of the epoch were returned."""
        return self._counts.over()

    def advance(self) -> int | None:
        """Count one global batch. Returns how many of this rank's samples to return; None: all of them."""
        kept = self._counts.advance()
        return None if kept is None else max(0, min(self._stop, kept[0]) - self._first)

    def surplus(self) -> int:
        """Number of global batches to discard at the end of the epoch."""
        return self._counts.surplus()

    def next_epoch(self) -> None:
        """Begin the next epoch."""
        self._counts.next_epoch()
        self._epoch += 1

    # --- checkpoints

    def state(self) -> dict[str, Any]:
        """The position, as JSON data."""
        return {"epoch": self._epoch, "ended": False, "used": self._counts.counter > 0, **self._counts.state()}

    def load(self, state: Any) -> None:
        """Go to the position of a checkpoint. CheckpointError if its iterator had other shards."""
        try:
            self._counts.load(state)
            self._epoch = epoch_of(state)
        except ValueError as error:
            raise CheckpointError(f"the checkpoint was taken with other arguments of the loader: {error}") from error
        if state.get("ended"):
            self.next_epoch()

    def go_to(self, iterations: int) -> None:
        """Go to the position after `iterations` iterations of the pipeline, which had no last-batch policy then."""
        while iterations:
            if self._counts.over():
                iterations = max(0, iterations - self.surplus())
                self.next_epoch()
            else:
                self.advance()
                iterations -= 1
