"""The loader of one rank, in its own process."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterator
from typing import Any

from ..pipeline import Pipeline
from ..pipeline.front import core_of
from ..runtime.parts import Part


def loader(
    train: Callable[..., Pipeline],
    *,
    rank: int = 0,
    world_size: int = 1,
    engines: int = 0,
    checkpoint: bytes | None = None,
    uneven: bool = False,
    **options: Any,
) -> RankLoader:
    """Rank `rank`'s share of the batches of a pipeline.

    Args:
        train: a function decorated with `pipeline_def`, or any function that takes pipeline options and returns a pipeline. Its
            `batch_size` is the global batch, and it needs a `seed`, the same on all ranks. Readers need no shards.
        rank, world_size: the number of this rank, from 0, and the number of ranks.
        engines: engines of this rank, see docs/engines.md.
        checkpoint: the result of :meth:`RankLoader.checkpoint` on any rank, under any number of ranks and engines; or a checkpoint of the
            pipeline itself.
        uneven: allow a `world_size` that does not divide the batch size. Then some ranks get one sample more than others.
        options: further options of the pipeline (``device_id=local_rank``) and arguments of `train`.

    Returns:
        A :class:`RankLoader`, not built yet.

    Raises:
        ValueError: the rank does not exist, the batch cannot be divided, or there is no seed.
        TypeError: `train` does not return a pipeline, or returns one in debug mode.

    ::

        with loader(train, rank=r, world_size=4, engines=1, checkpoint=saved) as batches:
            for images, labels in batches:   # an epoch
                ...
            saved = batches.checkpoint()
    """
    rank, world_size = operator.index(rank), operator.index(world_size)
    if not 0 <= rank < world_size:
        raise ValueError(f"rank is {rank}, world_size {world_size}: ranks go from 0 to world_size - 1")
    if not callable(train):
        raise TypeError(f"`train` must be a function that returns a pipeline (pipeline_def), got {type(train).__name__}")
    pipeline = train(**options, engines=engines, checkpoint=checkpoint, enable_checkpointing=True)
    if type(pipeline) is not Pipeline:
        what = type(pipeline).__name__
        reason = " (operators run while it is defined: give debug=False)" if isinstance(pipeline, Pipeline) else ""
        raise TypeError(f"`train` must return a Pipeline, it returned a {what}{reason}")
    _check(pipeline, rank, world_size, uneven)
    core_of(pipeline).part = Part(rank, world_size)
    return RankLoader(pipeline, rank, world_size)


def _check(pipeline: Pipeline, rank: int, world_size: int, uneven: bool) -> None:
    """ValueError unless the ranks can share the batches of `pipeline`."""
    size = pipeline.max_batch_size
    if size is None:
        raise ValueError("the pipeline has no batch_size: it is the number of samples of all ranks together")
    if size % world_size and not uneven:
        raise ValueError(
            f"batch_size={size} cannot be divided among world_size={world_size} ranks. Change one of them, or give uneven=True: then ranks "
            f"get {size // world_size} or {size // world_size + 1} samples"
        )
    if pipeline.seed is None and world_size > 1:
        raise ValueError("the pipeline has no seed: every rank would draw one of its own. Give `seed`, the same on all ranks")


class RankLoader:
    """The result of :func:`loader`: batches of one rank, and a checkpoint for all ranks.

    Attributes:
        pipeline: the pipeline that makes this rank's samples. Its `run` returns them, too.
        rank, world_size: as given.
    """

    def __init__(self, pipeline: Pipeline, rank: int, world_size: int):
        self.pipeline, self.rank, self.world_size = pipeline, rank, world_size

    def __enter__(self) -> RankLoader:
        """Build the pipeline. It is closed at the end of the block."""
        try:
            self.pipeline.build()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Any]:
        """One epoch, as :meth:`Pipeline.epoch` gives it: this rank's samples of each batch. After a `break` the next call continues the
        epoch.

        An iteration fails on the ranks that make the failing sample, or on all ranks if each makes all samples (:attr:`made_whole`). The
        next iteration over the loader continues behind the failed one.
        """
        return self.pipeline.epoch()

    @property
    def made_whole(self) -> str:
        """Why this rank makes all samples of a batch: the operator that needs them. Empty: this rank makes only its own samples."""
        return core_of(self.pipeline).built().whole

    def checkpoint(self, filename: str | os.PathLike[str] | None = None) -> bytes:
        """The state after the last returned batch, as :meth:`Pipeline.checkpoint`.

        It is equal on all ranks that returned as many batches.
        """
        return self.pipeline.checkpoint(filename)

    def statistics(self) -> Any:
        """As :meth:`Pipeline.statistics`."""
        return self.pipeline.statistics()

    def close(self) -> None:
        """Stop threads and engines; batches stay valid. Idempotent."""
        self.pipeline.close()
