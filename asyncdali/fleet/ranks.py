"""The loader of one rank, in its own process."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..pipeline import Pipeline
from ..pipeline.front import core_of
from ..runtime.parts import Part
from .addresses import Address
from .metrics import trainer_metrics
from .proof import as_token
from .remote import Actors


def loader(
    train: Callable[..., Pipeline],
    *,
    rank: int = 0,
    world_size: int = 1,
    engines: int | Sequence[str] = 0,
    checkpoint: bytes | None = None,
    uneven: bool = False,
    token: bytes | str | None = None,
    hedge_after: float | None = 3.0,
    hedge_compare: bool = False,
    reconnect_timeout: float = 60.0,
    buffer_bytes: int = 1 << 30,
    **options: Any,
) -> RankLoader:
    """Rank `rank`'s share of the batches of a pipeline.

    Args:
        train: a function decorated with `pipeline_def`, or any function that takes pipeline options and returns a pipeline. Its
            `batch_size` is the global batch, and it needs a `seed`, the same on all ranks. Readers need no shards.
        rank, world_size: the number of this rank, from 0, and the number of ranks.
        engines: number of engines of this rank on this machine (docs/engines.md), or addresses ``"host:port"`` of engines on any machine
            (docs/fleet.md).
        checkpoint: the result of :meth:`RankLoader.checkpoint` on any rank, under any number of ranks and engines; or a checkpoint of the
            pipeline itself.
        uneven: allow a `world_size` that does not divide the batch size. Then some ranks get one sample more than others.
        token: the secret of the engines at these addresses.
        hedge_after: an iteration that an engine has not answered after this multiple of the median time is asked of another one, too. The
            first answer counts. None: never.
        hedge_compare: compare both answers, and fail if they differ. For debugging.
        reconnect_timeout: seconds without any engine after which the loader fails.
        buffer_bytes: bytes of batches that are requested or wait here. One iteration may exceed them.
        options: further options of the pipeline (``device_id=local_rank``) and arguments of `train`.

    Returns:
        A :class:`RankLoader`, not built yet.

    Raises:
        ValueError: the rank does not exist, the batch cannot be divided, there is no seed, or an address or the token is wrong.
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
    actors = None
    if not isinstance(engines, int):
        actors = _actors(engines, token, rank, hedge_after, hedge_compare, reconnect_timeout, buffer_bytes)
        engines = 0
    elif token is not None:
        raise ValueError("`token` is for engines on other machines: give their addresses, engines=['host:port', ...]")
    pipeline = train(**options, engines=engines, checkpoint=checkpoint, enable_checkpointing=True)
    if type(pipeline) is not Pipeline:
        what = type(pipeline).__name__
        reason = " (operators run while it is defined: give debug=False)" if isinstance(pipeline, Pipeline) else ""
        raise TypeError(f"`train` must return a Pipeline, it returned a {what}{reason}")
    _check(pipeline, rank, world_size, uneven)
    core_of(pipeline).part = Part(rank, world_size)
    if actors is not None:
        if pipeline.seed is None:
            raise ValueError("the pipeline has no seed: every engine would draw one of its own. Give `seed`, the same everywhere")
        core_of(pipeline).elsewhere = actors.start
    return RankLoader(pipeline, rank, world_size, actors)


def _actors(
    addresses: Sequence[str], token: bytes | str | None, rank: int, hedge_after: float | None, compare: bool, timeout: float, most: int
) -> Actors:
    """ValueError or TypeError for wrong arguments."""
    if isinstance(addresses, str):
        raise TypeError(f"`engines` is a number or a list of addresses, got {addresses!r}: give [{addresses!r}]")
    found = [str(Address.parse(address)) for address in addresses]
    if len(set(found)) < len(found):
        raise ValueError(f"`engines` names an address twice: {found}")
    if token is None:
        raise ValueError("engines on other machines need `token`, the secret that they were started with")
    if hedge_after is not None and not hedge_after >= 1:
        raise ValueError(f"hedge_after={hedge_after!r} must be a multiple of the median time, at least 1, or None")
    if not timeout >= 0:
        raise ValueError(f"reconnect_timeout={timeout!r} must be a number of seconds, at least 0")
    if most < 1:
        raise ValueError(f"buffer_bytes={most!r} must be at least 1")
    return Actors(found, as_token(token), rank, hedge_after, compare, timeout, most)


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

    def __init__(self, pipeline: Pipeline, rank: int, world_size: int, actors: Actors | None = None):
        self.pipeline, self.rank, self.world_size = pipeline, rank, world_size
        self._actors = actors

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

    # --- engines on other machines

    def add_engine(self, address: str) -> None:
        """Use one more engine, ``"host:port"``. The connection is made in the background."""
        self._remote().add(str(Address.parse(address)))

    def remove_engine(self, address: str) -> None:
        """Request nothing more of an engine. It is disconnected when it has answered."""
        self._remote().remove(str(Address.parse(address)))

    def engines(self) -> list[dict[str, Any]]:
        """What each engine on other machines has done for this rank; see docs/fleet.md. Empty with engines on this machine."""
        return [] if self._actors is None or self._actors.pool is None else self._actors.pool.statistics()

    def metrics(self) -> str:
        """:meth:`engines` as text for Prometheus."""
        return trainer_metrics(self.rank, self.engines())

    def _remote(self) -> Actors:
        if self._actors is None:
            raise RuntimeError("this loader has no engines on other machines: make it with engines=['host:port', ...]")
        return self._actors

    def close(self) -> None:
        """Stop threads and engines; batches stay valid. Idempotent."""
        self.pipeline.close()
