"""Positions that are passed to callables."""

from __future__ import annotations


class SampleInfo:
    """The position of a sample. All numbers count from 0.

    idx_in_epoch: ``iteration * batch_size + idx_in_batch``, with the largest batch size.
    idx_in_batch: index in the batch.
    iteration: batches requested since the epoch began.
    epoch_idx: epochs ended by ``Pipeline.reset()``.
    """

    __slots__ = ("__dict__", "epoch_idx", "idx_in_batch", "idx_in_epoch", "iteration")

    def __init__(self, idx_in_epoch: int, idx_in_batch: int, iteration: int, epoch_idx: int):
        self.idx_in_epoch = idx_in_epoch
        self.idx_in_batch = idx_in_batch
        self.iteration = iteration
        self.epoch_idx = epoch_idx

    def __repr__(self) -> str:
        return (
            f"SampleInfo(idx_in_epoch={self.idx_in_epoch}, idx_in_batch={self.idx_in_batch}, "
            f"iteration={self.iteration}, epoch_idx={self.epoch_idx})"
        )


class BatchInfo:
    """The position of a batch: `iteration` since the epoch began, and `epoch_idx`. Both count from 0."""

    __slots__ = ("__dict__", "epoch_idx", "iteration")

    def __init__(self, iteration: int, epoch_idx: int):
        self.iteration = iteration
        self.epoch_idx = epoch_idx

    def __repr__(self) -> str:
        return f"BatchInfo(iteration={self.iteration}, epoch_idx={self.epoch_idx})"
