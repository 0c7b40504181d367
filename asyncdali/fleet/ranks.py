"""The loader of one rank, in its own process."""

from __future__ import annotations

import copy
import operator
import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from asyncdali_workers.interrupts import raised_by_signal, uninterrupted

from .._version import __version__
from ..checkpoint import write
from ..errors import CheckpointError
from ..pipeline import Pipeline
from ..pipeline.front import core_of
from ..plugin.epochs import LastBatchPolicy
from ..runtime.order.claims import take_next
from ..runtime.parts import Part
from ..types import PipelineAPIType
from .addresses import Address
from .epochs import RankEpochs
from .metrics import trainer_metrics
from .proof import as_token
from .remote import Actors

if TYPE_CHECKING:
    from ..runtime.counting.statistics import Statistics


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
    allow_unchecked: bool = False,
    last_batch_policy: LastBatchPolicy | None = None,
    reader_name: str | None = None,
    **options: object,
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
        hedge_after: the request of an iteration is also sent to a second engine, if the first has not answered after this multiple of the
            median time. The first answer counts. None: never.
        hedge_compare: compare both answers, and fail if they differ. For debugging.
        reconnect_timeout: seconds without any engine after which the loader fails.
        buffer_bytes: the limit, in bytes, of batches that are requested or wait for an earlier batch. A single iteration may exceed the
            limit. Batches that are next in order count towards ``prefetch_queue_depth`` instead.
        allow_unchecked: accept engines although the functions of the pipeline reach objects that cannot be compared with the engines' own.
        last_batch_policy: the treatment of the last global batch of a reader's epoch, see :class:`LastBatchPolicy`. FILL: the batch is
            returned whole. DROP: the batch is not returned. PARTIAL: each rank keeps those of its samples that belong to the epoch, so
            the last ranks may get empty batches. None: the batch is returned whole, and an epoch ends as ``Pipeline.epoch`` ends it.
        reader_name: with `last_batch_policy`: the reader whose epochs count. It may be omitted if there is one reader.
        options: further options of the pipeline (``device_id=local_rank``) and arguments of `train`.

    Returns:
        A :class:`RankLoader`, not built yet.

    Raises:
        ValueError: the rank does not exist, the batch cannot be divided, there is no seed, or an address or the token is wrong. When the
            pipeline is built: there is no reader for the `last_batch_policy`.
        TypeError: `train` does not return a pipeline, or returns one in debug mode, or `last_batch_policy` is of another type. When the
            pipeline is built: a function reaches an object that cannot be compared (`allow_unchecked`).

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
    _check_policy(last_batch_policy, reader_name)
    actors = None
    if not isinstance(engines, int):
        actors = _actors(engines, token, rank, hedge_after, hedge_compare, reconnect_timeout, buffer_bytes)
        actors.allow_unchecked = allow_unchecked
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
            raise ValueError("the pipeline has no seed: every engine would draw another one. Give the same `seed` everywhere")
        core_of(pipeline).elsewhere = actors.start
    return RankLoader(pipeline, rank, world_size, actors, last_batch_policy, reader_name)


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


def _check_policy(policy: object, reader_name: object) -> None:
    if policy is not None and not isinstance(policy, LastBatchPolicy):
        raise TypeError(f"`last_batch_policy` must be a LastBatchPolicy or None, got {type(policy).__name__} {policy!r}")
    if policy is None and reader_name is not None:
        raise ValueError(f"reader_name={reader_name!r} has no effect without `last_batch_policy`. Give both, or none")


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
        raise ValueError("the pipeline has no seed: every rank would draw another one. Give the same `seed` on all ranks")


def _meta_of(name: str | None, metas: dict[str, dict[str, int]]) -> dict[str, int]:
    """Size and shards of the reader whose epochs count. ValueError if there is none, or more than one to choose from."""
    if name is None and len(metas) == 1:
        return next(iter(metas.values()))
    if name is not None and name in metas:
        return metas[name]
    if not metas:
        raise ValueError("last_batch_policy needs a reader, and this pipeline has none: its sources end the epoch. Leave the policy out")
    wanted = "reader_name is missing" if name is None else f"reader_name={name!r} is no reader of this pipeline"
    raise ValueError(f"{wanted}. Readers: {', '.join(sorted(metas))}")


class RankLoader:
    """The result of :func:`loader`: batches of one rank, and a checkpoint for all ranks.

    Attributes:
        pipeline: the pipeline that makes this rank's samples. Its `run` returns them, too.
        rank, world_size: as given.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        rank: int,
        world_size: int,
        actors: Actors | None = None,
        last_batch_policy: LastBatchPolicy | None = None,
        reader_name: str | None = None,
    ):
        self.pipeline, self.rank, self.world_size = pipeline, rank, world_size
        self._actors = actors
        self._policy, self._reader_name = last_batch_policy, reader_name
        self._epochs: RankEpochs | None = None
        self._dropped: tuple[int, int] | None = None  # the place behind the batches that are dropped at the end of the epoch
        self._ends = self._source_ended = False  # the end of the epoch is not finished; a source has ended before the reader

    def __enter__(self) -> RankLoader:
        """Build the pipeline. It is closed at the end of the block."""
        try:
            self.pipeline.build()
            self._counted()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Any]:
        """One epoch: this rank's samples of each batch. After a `break` the next call continues the epoch.

        An iteration fails on the ranks that make the failing sample, or on all ranks if each makes all samples (:attr:`made_whole`). The
        next iteration over the loader continues behind the failed one.
        """
        return self.pipeline.epoch() if self._counted() is None else _EpochOfRank(self)

    def _counted(self) -> RankEpochs | None:
        """The position in the epochs under the last-batch policy. None without a policy. Builds."""
        if self._policy is not None and self._epochs is None:
            session = core_of(self.pipeline).built()
            meta = _meta_of(self._reader_name, session.reader_metas())
            assert self.pipeline.max_batch_size is not None
            epochs = RankEpochs(meta, self.pipeline.max_batch_size, self._policy, Part(self.rank, self.world_size))
            place = session.producer.place()
            if session.delivery.iterator_data is not None:
                epochs.load(session.delivery.iterator_data)
            elif place.epoch:
                raise CheckpointError(
                    "the checkpoint was taken without `last_batch_policy`, and sources have ended an epoch before: the reader's position "
                    "in its epoch is not known. Take the checkpoint of a loader with `last_batch_policy`"
                )
            else:
                epochs.go_to(place.iteration)
            self._epochs = epochs
        return self._epochs

    def _next(self, epochs: RankEpochs) -> Any:
        """The next batch of the epoch. StopIteration at its end. An exception of a signal's handler leaves the batch to the next call."""
        if epochs.over():
            raise StopIteration
        core, after, names = core_of(self.pipeline), copy.copy(epochs), self.pipeline.output_names

        def cut(batch: tuple[Any, ...]) -> Any:
            keep = after.advance()
            outputs = batch if keep is None else tuple(output[:keep] for output in batch)
            return outputs if names is None else dict(zip(names, outputs, strict=True))

        before = self._place()
        try:
            batch = take_next(core.enter("run()", PipelineAPIType.BASIC), core.fill_awaited, None, cut)
        except Exception as error:
            if not raised_by_signal(error) and not isinstance(error, StopIteration) and self._place() != before:
                after = copy.copy(epochs)  # the error of a source leaves the position unchanged
                after.advance()
                self._epochs = after
            raise
        self._epochs = after  # the last step
        return batch

    def _end(self, epochs: RankEpochs) -> None:
        """Begin the next epoch. Batches that the policy drops are made and discarded, and so are their errors. May be repeated."""
        if self._source_ended:
            self.pipeline.reset()
            self._source_ended = False
        if self._dropped is None:
            epoch, iteration = self._place()
            self._dropped = epoch, iteration + epochs.surplus()
        while self._place() < self._dropped:
            before = self._place()
            try:
                self.pipeline.run()
            except Exception as error:
                if raised_by_signal(error) or self._place() == before:
                    raise
        with uninterrupted():
            epochs.next_epoch()
            self._dropped, self._ends = None, False

    def _place(self) -> tuple[int, int]:
        """Numbers of the epoch and the iteration that comes next."""
        place = core_of(self.pipeline).built().producer.place()
        return place.epoch, place.iteration

    @property
    def made_whole(self) -> str:
        """Why this rank makes all samples of a batch: the operator that needs them. Empty: this rank makes only its own samples."""
        return core_of(self.pipeline).built().whole

    def checkpoint(self, filename: str | os.PathLike[str] | None = None) -> bytes:
        """The state after the last returned batch, as :meth:`Pipeline.checkpoint`.

        It is equal on all ranks that returned as many batches.
        """
        epochs = self._counted()
        if epochs is None:
            return self.pipeline.checkpoint(filename)
        session = core_of(self.pipeline).built()
        data = session.saving.checkpoint(__version__, session.delivery.mark(), epochs.state())
        if filename is not None:
            write(filename, data)
        return data

    def statistics(self) -> Statistics:
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
        """The work of each engine on other machines for this rank; see docs/fleet.md. Empty with engines on this machine."""
        return [] if self._actors is None or self._actors.pool is None else self._actors.pool.known()

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


class _EpochOfRank:
    """The batches that are left of an epoch under a last-batch policy. An object and no generator, as the epochs of a pipeline."""

    def __init__(self, loader: RankLoader):
        self._loader: RankLoader | None = loader
        self._begun = self._over = False

    def __iter__(self) -> _EpochOfRank:
        return self

    def __next__(self) -> Any:
        loader = self._loader
        if loader is None:
            raise StopIteration
        epochs = loader._counted()
        assert epochs is not None
        if not self._begun:
            # A checkpoint may have been taken after the last batch, before the end of the epoch.
            loader._ends = loader._ends or epochs.over()
            if loader._ends:
                loader._end(epochs)
            self._begun = True
        if not self._over:
            try:
                return loader._next(epochs)
            except StopIteration:
                loader._source_ended, loader._ends, self._over = not epochs.over(), True, True
        if loader._ends:
            loader._end(epochs)
        self._loader = None
        raise StopIteration


class LoaderParts(NamedTuple):
    """The arguments that make a :class:`RankLoader`."""

    pipeline: Pipeline
    rank: int
    world_size: int
    actors: Actors | None
    last_batch_policy: LastBatchPolicy | None
    reader_name: str | None


def parts_of(made: RankLoader) -> LoaderParts:
    """The arguments that made a loader, for a loader of another class over the same pipeline."""
    return LoaderParts(made.pipeline, made.rank, made.world_size, made._actors, made._policy, made._reader_name)
