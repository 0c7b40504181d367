"""Pullers request batches from a source, one at a time and in order.

A puller holds the position of its source (`iteration` of the epoch). :meth:`Puller.pull` returns the batches of the next iteration, one per
node. It does not move the position: a second call returns the same batches. :meth:`Puller.advance` moves the position. After
:meth:`Puller.drop` the source is asked again. Interrupts (Ctrl-C) may come at any time, so every step may be repeated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from asyncdali_workers import BatchInfo, SampleInfo
from asyncdali_workers.interrupts import delayed, raised_by_signal
from asyncdali_workers.worker.states import replay

from ..batch import Batch
from ..errors import operator_error
from ..messages.notices import warn
from .group import Group
from .kinds import SourceDescription
from .ports import Port
from .samples import Answer, FailedSample, SamplesFailed, kept, of_samples, raise_last
from .snapshots import Position, Snapshots, load_snapshot


class Puller:
    """Base class: the position, and the conversion of a source's results."""

    kind = "called"
    """Where the source's code runs, for statistics (``SourceStatistics.kind``)."""
    elsewhere = False
    """Whether another process calls the source."""
    stands_in = False
    """Whether its batches only stand for those that another process holds."""
    indexed: bool
    """Whether the source is asked for single samples, by their index."""
    keeps_errors = False
    """A sample for which the source fails does not fail the others; see ``samples``."""

    origins: Any = None
    """Where the samples of the batch that was pulled last come from, if the source regroups samples."""

    left_over = 0
    """The samples of a batch that were computed before the data ended in the middle of the batch. They are not delivered."""

    workers: Sequence[tuple[int, int, int]] | None = None
    """The workers of a pool that computed the batch that was pulled last (``PoolBatch.workers``). None: no pool did."""

    @property
    def graphs(self) -> list[dict[str, object]]:
        """Descriptions of the graphs whose samples it regroups (``regrouping``); they are in checkpoints."""
        return []

    @property
    def samples(self) -> int:
        """Number of samples of the data sets that it regroups."""
        return 0

    def __init__(self, group: Group, ports: dict[str, Port], batch_size: int):
        self.group = group
        self.batch_size = batch_size
        self.indexed = group.indexed
        self.ahead = group.prefetch_queue_depth
        """Number of batches that are asked for ahead, by sources that are."""
        self.iteration = 0
        self.epoch = 0
        self.index: int | None = None
        """The pipeline's iteration that is pulled for, for messages."""
        self.snapshots: Snapshots | None = None
        self._told = False  # whether the log has named the samples that are left over
        self._ports = [ports.get(name) for name in group.nodes]

    @property
    def description(self) -> SourceDescription:
        """The kind of the source."""
        return self.group.description

    @property
    def port(self) -> Port:
        """The first used node, for messages."""
        return next(port for port in self._ports if port is not None)

    def keep_snapshots(self) -> Snapshots:
        """The pipeline has checkpoints and the source has a state: track the state."""
        self.snapshots = Snapshots(self.group, self._resume)
        return self.snapshots

    def start(self) -> None:
        """The pipeline is about to request the first batch of an epoch."""

    def pull(self) -> Answer:
        """The batches of the next iteration by node, or SamplesFailed. StopIteration at the end; other exceptions are the source's."""
        raise TypeError("abstract")

    def again(self, iteration: int, epoch: int) -> Answer:
        """As :meth:`pull`, for any iteration of a source that is asked by position. Called by a thread that waits. Changes nothing."""
        raise TypeError("abstract")

    def sample(self, info: SampleInfo) -> object:
        """One sample of an indexed source. Called by a thread that waits. Changes nothing."""
        raise TypeError("abstract")

    def advance(self, iteration: int) -> None:
        """The pulled batches are used. `iteration` is the next position."""
        self.iteration = iteration
        if self.snapshots is not None:
            self.snapshots.advance()

    def drop(self) -> None:
        """The pulled batches, if any, will not be used."""
        if self.snapshots is not None:
            self.snapshots.drop()

    def failed(self) -> None:
        """After an error of :meth:`pull`: the next call asks the source again."""
        self.workers = None
        if self.snapshots is not None:
            self.snapshots.failed()
        self.drop()

    def ended(self) -> None:
        """The source has raised StopIteration."""
        if self.snapshots is not None:
            self.snapshots.ended()

    def tell_left_over(self) -> None:
        """After the end of the data: warn, once, if samples of an unfinished batch are not delivered."""
        count, self.left_over = self.left_over, 0
        if count and not self._told:
            self._told = True
            warn(
                f"The source of {self.group.name!r} ended the data at sample {count} of a batch of {self.batch_size}. What the batch had "
                "before is not delivered, in this and in later epochs. Raise StopIteration where a batch begins, or return batches "
                "(without batch=False); the last batch may then be smaller.",
                UserWarning,
            )

    def restart(self, epoch: int) -> None:
        """Go to the start of `epoch`."""
        self.iteration, self.epoch = 0, epoch

    def seek(self, iteration: int, epoch: int) -> None:
        """Go to batch `iteration` of `epoch`, after a restore. Only sources that are asked by position can do this."""
        if self.description.resumable:
            self.iteration = iteration
        self.epoch = epoch

    def awaited_here(self) -> bool:
        """Whether the running coroutine is a callback of this source."""
        return False

    def close(self) -> None:
        """Nothing more will be pulled."""

    def _argument(self, iteration: int, epoch: int) -> object:
        """The argument for a callable of batches."""
        return BatchInfo(iteration, epoch) if self.description.batch_info else iteration

    def _result_by_node(self, result: object) -> Answer:
        """A source's batch, or list of samples, as batches by node, or SamplesFailed. OperatorError for anything else."""
        if type(result) is SamplesFailed:
            return {port.name: result for port in self._ports if port is not None}
        return self.batches(result)

    def batches(self, result: Any) -> dict[str, Batch]:
        """A source's batch, or list of samples, as batches by node. OperatorError for anything else."""
        group = self.group
        try:
            parts: Sequence[Any] = group.components(result) if group.batch else group.sample_components(result)
            batches = {}
            for port, part in zip(self._ports, parts, strict=True):
                if port is not None:
                    batch = port.converted(part, group.batch, group.cuda_stream)
                    batches[port.name] = port.take_in(batch)
            return batches
        except Exception as error:  # the source's answer is an error
            if raised_by_signal(error):
                raise
            raise operator_error(self.port.planned, error, self.index) from error

    def _resume(self, position: Position) -> None:
        """Bring the source to `position`. ValueError if the source does not reach it."""
        raise TypeError("abstract")


_NOTHING = object()


class _Raised:
    """The error or the end that a source has raised instead of a result, until :meth:`Puller.failed` or :meth:`Puller.ended`."""

    def __init__(self, error: Exception):
        self.error = error


class DirectPuller(Puller):
    """Calls the source on the calling thread."""

    def __init__(self, group: Group, ports: dict[str, Port], batch_size: int):
        super().__init__(group, ports, batch_size)
        self._resumable = self.description.resumable
        self._partial: list[Any] = []
        self._failed = False  # the source has failed for a sample of them
        self._result: Any = _NOTHING  # the source's result, until batches are made of it
        self._got: Answer | None = None

    def pull(self) -> Answer:
        if self._got is None:
            if self._result is _NOTHING and self._resumable:
                self._result = self._ask()
            elif self._result is _NOTHING:
                with delayed():  # a generator ends with the first exception that leaves it
                    try:
                        self._result = self._ask()
                    except Exception as error:
                        if raised_by_signal(error):
                            raise
                        self._result = _Raised(error)  # a delayed handler may raise now; the next call must not ask behind an end
            if type(self._result) is _Raised:
                raise self._result.error
            if self.snapshots is not None:
                self.snapshots.pulled(self.snapshots.due())
            self._got = self._result_by_node(self._result)
            self._result = _NOTHING  # release the user's memory for the next batch
        return self._got

    def advance(self, iteration: int) -> None:
        super().advance(iteration)
        self._got = None

    def drop(self) -> None:
        super().drop()
        self._result, self._got = _NOTHING, None

    def again(self, iteration: int, epoch: int) -> Answer:
        return self._result_by_node(self._at(iteration, epoch))

    def sample(self, info: SampleInfo) -> object:
        return self.group.callback(info)

    def _ask(self) -> object:
        if self.description.has_inputs:
            return self._at(self.iteration, self.epoch)
        if self.group.batch:
            return self.group.callback()
        # A callable without arguments cannot repeat a sample. Samples from before an error are therefore kept for the next attempt.
        callback = self.group.callback
        while len(self._partial) < self.batch_size:
            try:
                self._partial.append(callback())
            except StopIteration:
                raise_last(self._partial)
                self.left_over = len(self._partial)
                raise
            except Exception as error:
                if not self.keeps_errors or raised_by_signal(error):
                    raise
                self._partial.append(FailedSample(error))
                self._failed = True
        got, failed, self._partial, self._failed = self._partial, self._failed, [], False
        return of_samples(got) if failed else got

    def _at(self, iteration: int, epoch: int) -> object:
        if self.group.batch:
            return self.group.callback(self._argument(iteration, epoch))
        callback, size, first = self.group.callback, self.batch_size, iteration * self.batch_size
        samples = list[object]()
        try:
            for k in range(size):
                samples.append(callback(SampleInfo(first + k, k, iteration, epoch)))
            return samples
        except StopIteration:
            self.left_over = len(samples)
            raise
        except Exception as error:
            if not self.keeps_errors or raised_by_signal(error):
                raise
        return of_samples([kept(callback, SampleInfo(first + k, k, iteration, epoch)) for k in range(size)])

    def ended(self) -> None:
        super().ended()
        self._partial, self._result = [], _NOTHING

    def _resume(self, position: Position) -> None:
        if position.state is not None:
            load_snapshot(self.group, position.state)
        for result in replay(position.asks, self._asked_again, self.group.name):
            self._result = result
        self.left_over = 0

    def _asked_again(self) -> object:
        try:
            return self._ask()
        except StopIteration:
            self._partial = []
            raise
