"""The record of one iteration in flight, and how callers wait for the iteration."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from ...batch import Batch
from ...system.deadlocks import FIRST_LOOK, DeadlockWait, frames_of
from ..work.choices import ChosenWindows, Drawn
from .moments import NO_CHOICES, NO_ORIGINS, NO_WORKERS

if TYPE_CHECKING:
    from ...device.cuda.gates import CompletionGate


class NumberedSegment(Protocol):
    """The part of a segment that a lane uses."""

    index: int
    backend: str


class RecordLane(Protocol):
    """The part of a ``scheduler.Scheduler`` that an executor uses."""

    def planned(self, segment: NumberedSegment, record: Record) -> None: ...
    def done(self, segment: NumberedSegment, record: Record) -> bool: ...
    def pump(self) -> None: ...


Phases = TypeVar("Phases", bound=Callable[..., object])
_RUNS: set[CodeType] = set()


def runs_record(function: Phases) -> Phases:
    """Mark a method that runs a part of the iteration ``self.record``, so that frames of it are found (:meth:`Record.runs_in`)."""
    _RUNS.add(function.__code__)
    return function


class Record:
    """One iteration in flight: its batches, the positions after it, and the callers that wait for it."""

    __slots__ = (
        "_failed_segment", "_lock", "_waiters", "admitted", "arrived", "awaited", "batch_size", "before", "careful", "choices", "done_at",
        "done_segments", "edges", "engine", "error", "fed", "finished", "finished_at", "first", "given", "handed", "index", "kept",
        "lane", "let_go", "number", "on_planned", "origins", "outputs", "place", "positions", "produced", "sources", "weight", "whole",
        "workers",
    )  # fmt: skip

    lane: RecordLane
    """The scheduler of its segments, from its admission on."""

    def __init__(self, index: int, batch_size: int, edge_count: int):
        self.index = index
        self.number = index  # number of the iteration, for operators and errors; an engine's records have another `index`
        self.given: Mapping[str, Any] | None = None  # in an engine: positions before the iteration, by operator
        self.produced: dict[str, int] = {}  # in an engine, by operator: number of samples produced, if not one per sample of the batch
        self.on_planned: Callable[[], None] | None = None  # in an engine: called for every segment whose positions are known
        self.batch_size = batch_size
        self.whole = 0  # number of samples of the whole iteration if only a part (`batch_size` samples) is made; 0: all are made
        self.first = 0  # the number in the iteration of the first sample that is made
        self.careful = False  # in an engine: run the steps of pixels one by one and report each, to find the step that crashes the process
        self.handed: tuple[int, int] | None = None  # range of the computed samples that is returned; None: all
        self.edges: list[Batch] = [None] * edge_count  # type: ignore[list-item]  # the scheduler starts a segment when its inputs are set
        self.fed: dict[str, Any] = {}  # batches of external inputs
        self.origins = NO_ORIGINS  # where the samples of a regrouping source come from
        self.workers = NO_WORKERS  # the worker processes that computed batches of sources
        self.place = (0, 0)  # epoch, and iteration in it
        self.positions: Mapping[str, Any] = {}  # positions of stateful operators after this iteration
        self.before: Mapping[str, Any] | None = None  # operators' positions before this iteration; set when a consumer takes the record
        self.sources: dict[str, Any] = {}  # positions of the sources before this iteration
        self.done_segments: set[int] = set()
        self.engine = ""  # name of the engine that computed the operators before the cut; "": no engine did
        self.choices: Mapping[str, ChosenWindows | Drawn] = NO_CHOICES  # draws and windows of operators planned in this process
        self.error: BaseException | None = None
        self.outputs: list[Batch] = []
        self.kept: np.ndarray | None = None  # numbers of the samples that the outputs have, after others were dropped; None: all
        self.finished = False
        self.awaited = False  # whether a caller waits for this iteration, or has waited
        self.let_go: Callable[[], None] | None = None  # resumes the scheduler, which holds this iteration back; None: not held back
        self.weight = 0  # for statistics: number of iterations that this record stands for; 0: this iteration is not timed
        self.admitted = self.finished_at = 0  # for statistics: when it was queued, when it was done
        self.arrived = 0  # for statistics: when the consumer requested it
        self.done_at: dict[int, int] = {}  # for statistics: when each segment was done
        self._failed_segment = 0
        self._waiters: list[Callable[[], None]] = []
        self._lock = threading.Lock()

    def fail(self, segment: int, error: BaseException) -> None:
        """The iteration has failed. Of several errors, the one of the earliest segment is kept, independent of timing."""
        with self._lock:
            if self.error is None or segment < self._failed_segment:
                self.error, self._failed_segment = error, segment

    def keep(self, operator: str, choice: ChosenWindows | Drawn) -> None:
        """Keep a choice of an operator for the provenance of this iteration."""
        self.choices = {**self.choices, operator: choice}

    def finish(self) -> None:
        """Wake the waiting callers (on the loop's thread, or in close)."""
        with self._lock:
            if self.finished:
                return
            self.finished = True
            waiters, self._waiters = self._waiters, []
        for wake in waiters:
            wake()

    def on_finished(self, wake: Callable[[], None]) -> None:
        """Call `wake` when the iteration is finished; immediately if it already is. The scheduler does not hold it back any more."""
        with self._lock:
            finished = self.finished
            if not finished:
                self._waiters.append(wake)
        if finished:
            wake()
            return
        # This thread sets `awaited`, then reads `let_go`. The scheduler sets `let_go`, then reads `awaited`. So at least one of the two
        # threads sees the other's value.
        self.awaited = True
        if self.let_go is not None:
            self.let_go()

    def runs_in(self, frame: FrameType) -> bool:
        """Whether a stack, given by its innermost frame, runs a segment of this iteration."""
        return any(outer.f_locals["self"].record is self for outer in frames_of(frame, _RUNS))

    def _forget(self, wake: Callable[[], None]) -> None:
        """Undo :meth:`on_finished`."""
        with self._lock:
            if wake in self._waiters:
                self._waiters.remove(wake)

    def wait(self, gate: CompletionGate | None = None) -> None:
        """Block until finished; signals interrupt the wait. RuntimeError if a function of an operator waits for the calling thread.

        With a `gate`, block until the GPU has made the outputs, too. This takes the interpreter lock once in place of twice.
        """
        if self.finished:
            return
        wake: Callable[[], None]
        passed: Callable[[float], bool]
        if gate is None:
            lock = threading.Lock()
            lock.acquire()
            wake, passed = lock.release, functools.partial(lock.acquire, True)
        else:
            wake, passed = functools.partial(self._let_pass, gate), gate.wait
        self.on_finished(wake)
        try:
            # A signal between the interpreter's last check and the wait would not be noticed until the end, so check periodically.
            if passed(FIRST_LOOK):
                return
            patience = DeadlockWait(self.runs_in)
            while not passed(patience.seconds()):
                patience.look(notice=False)
        except BaseException:  # a signal handler raised (Ctrl-C)
            self._forget(wake)
            raise

    def _let_pass(self, gate: CompletionGate) -> None:
        gate.open(self.outputs)

    async def wait_async(self) -> None:
        """Wait inside any running event loop. Cancelling the wait loses nothing."""
        if self.finished:
            return
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            try:
                loop.call_soon_threadsafe(lambda: None if future.done() else future.set_result(None))
            except RuntimeError:
                pass  # that loop was closed while the wait was pending

        self.on_finished(wake)
        try:
            await future
        finally:
            self._forget(wake)


def wait_for_any(records: Sequence[Record]) -> None:
    """Block until one of the iterations is finished; signals interrupt the wait. RuntimeError as :meth:`Record.wait`."""
    lock, once = threading.Lock(), threading.Lock()
    lock.acquire()

    def wake() -> None:
        if once.acquire(blocking=False):
            lock.release()

    try:
        for record in records:
            record.on_finished(wake)
        if lock.acquire(True, FIRST_LOOK):
            return
        patience = DeadlockWait(lambda frame: any(record.runs_in(frame) for record in records))
        while not lock.acquire(True, patience.seconds()):
            patience.look(notice=False)
    finally:
        for record in records:
            record._forget(wake)
