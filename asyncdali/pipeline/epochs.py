"""Iterators over one epoch of a pipeline.

They are objects and not generators, because a generator ends with the first exception that leaves it. A wait that is cancelled, and an
iteration that fails, do not end the epoch: the next call continues as `run` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..runtime.order.claims import take_next
from ..types import PipelineAPIType
from .front import core_of

if TYPE_CHECKING:
    from ..runtime.session import Session
    from .running import Running


class _Epoch:
    def __init__(self, pipeline: Running, session: Session):
        self._pipeline: Running | None = pipeline
        self._session = session
        self._counted = False
        self._is_over = False  # the sources have ended the epoch
        self._end: int | None = None

    def _left(self) -> Running | None:
        """The pipeline, if the epoch has more batches."""
        if not self._counted:
            self._end, self._counted = _end_of_epoch(self._session), True
        if self._is_over:  # after an interrupt
            self._over()
        if self._end is not None and self._session.iteration >= self._end:
            self._pipeline = None
        return self._pipeline

    def _over(self) -> None:
        """The sources have ended the epoch."""
        self._is_over = True
        if self._pipeline is not None:
            self._pipeline.reset()
        self._pipeline = None


def _end_of_epoch(session: Session) -> int | None:
    """Number of iterations after which the current epoch ends: the largest shard of the readers has been delivered.

    None without readers. None with sources, because they end the epoch.
    """
    metas = list(session.reader_metas().values())
    if not metas or session.producer.sources.pullers:
        return None
    batch, iteration = int(session.options.batch_size), session.iteration
    ends = []
    for meta in metas:
        shard = -(-meta["epoch_size"] // meta["number_of_shards"])
        if meta["pad_last_batch"]:
            per_epoch = -(-shard // batch)
            ends.append((iteration // per_epoch + 1) * per_epoch)
        else:
            epochs_done = iteration * batch // shard
            ends.append(-(-((epochs_done + 1) * shard) // batch))
    return max(ends)


def _next_batch(pipeline: Running) -> Any:
    """The outputs of `run` as an epoch yields them. They are named before the consumer moves on: an interrupt loses nothing."""
    from .running import Running  # imports this module

    if type(pipeline).run is not Running.run:  # programs override it
        return pipeline._named(pipeline.run())
    core = core_of(pipeline)
    return take_next(core.enter("run()", PipelineAPIType.BASIC), core.fill_awaited, None, pipeline._named)


class Epoch(_Epoch):
    """The batches that are left of one epoch; see :meth:`Running.epoch`."""

    def __iter__(self) -> Epoch:
        return self

    def __next__(self) -> Any:
        pipeline = self._left()
        if pipeline is None:
            raise StopIteration
        try:
            return _next_batch(pipeline)
        except StopIteration:
            self._over()
            raise

    def close(self) -> None:
        """End the iteration. The next iterator gets the rest of the epoch."""
        self._pipeline = None


class AsyncEpoch(_Epoch):
    """The batches that are left of one epoch; see :meth:`Running.__aiter__`. Several tasks may share an iterator."""

    def __aiter__(self) -> AsyncEpoch:
        return self

    async def __anext__(self) -> Any:
        pipeline = self._left()
        if pipeline is None:
            raise StopAsyncIteration
        try:
            batch = await pipeline._run_async(None, self._end, pipeline._named)
        except StopAsyncIteration:
            self._over()
            raise
        if batch is None:  # other tasks have got the last batches
            self._pipeline = None
            raise StopAsyncIteration
        return batch

    async def aclose(self) -> None:
        """End the iteration. A task that waits gets its batch; the next iterator gets the rest of the epoch."""
        self._pipeline = None
