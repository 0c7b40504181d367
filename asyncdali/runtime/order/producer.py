"""The producing end of a pipeline: asks the sources for batches, feeds iterations, and queues them.

It runs on the user's thread, in `run()` and `schedule_run()`; for `run_async()`, on the pipeline's source thread. Errors of sources are not
raised here: the good batches come first, and then the error at the position of the missing batch.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NamedTuple

from asyncdali_workers.interrupts import delayed, raised_by_signal, uninterrupted

from ...errors import PipelineClosed, set_aside
from ...sources.sources import Fed, Sources, batch_size_of
from ...system.deadlocks import PatientLock, frames_of
from ..parts import Part
from .executor import Executor
from .record import Record


class EpochPlace(NamedTuple):
    """The consumer's position between two iterations.

    Attributes:
        epoch, iteration: of the next batch; `iteration` is its number in the epoch.
        sources: positions of the sources that have a state, by node.
        ended: "here": the epoch has no more batches. "ahead": the sources have ended the epoch, but some of its batches are still to be
            returned. "": not known.
        resets: number of future ends of epochs that were already reset. The next epoch begins directly after each of them.
        more: with `ended` or `resets`: iterations in flight beyond the number that the first call of a fresh pipeline queues.
    """

    epoch: int
    iteration: int
    sources: dict[str, Any]
    ended: str = ""
    resets: int = 0
    more: int = 0


class Producer:
    """Queues iterations in `in_flight`.

    Attributes:
        launched: iterations queued so far.
        ended: a source has met the end of its data; nothing is asked until :meth:`reset`.
        failure: the error of a source that the consumer has not seen yet.
    """

    # A reset takes effect at the end of the sources, which may be some batches ahead of the consumer. A checkpoint holds the consumer's
    # position. It therefore also stores whether the end of the epoch was met, and how many ends ahead of the consumer were reset.

    def __init__(
        self, executor: Executor, sources: Sources, depth: int, batch_size: int, part: Part | None = None, whole: bool = False
    ):
        """`part`: the samples of each iteration that are made, None: all. `whole`: all samples are made, then the part is cut out."""
        self.sources = sources
        self.in_flight: deque[Record] = deque()
        self.launched = 0
        self.ended = False
        self.failure: BaseException | None = None
        self._executor = executor
        self._depth = depth
        self._batch_size = batch_size
        self._part, self._whole = part, whole
        self._started = False
        self._resets = 0  # number of ends ahead of the consumer that were reset before the checkpoint
        self._end_is_near = False  # the end of the epoch had been met when this position was saved
        self._more = 0  # iterations to be queued first, beyond `depth`
        self._due = 0  # the number that `launched` must reach
        self._kept = 0  # iterations that are in flight while no call waits
        self._open = False  # an interrupted call of `schedule` has raised `_due`, and the next one has not taken this over yet
        self._launching: Record | None = None  # the iteration that is being queued, or whose queueing was interrupted
        self.calls: set[Any] = set()
        """Calls that wait for an iteration. A thread that was interrupted may be in the set until its next call."""
        self._longer = False  # more iterations are in flight than `depth`
        self._awaited = False
        self._lock = PatientLock(self._asks_in)
        # A source is being asked. Only the thread that holds the lock may trust the flag, because an interrupt may leave it set.
        self._pulling = False
        self._in_hook = False  # as for `_pulling`: only the thread that holds the lock may trust the flag
        self._hooked = -1  # the iteration for which the hook has run
        self._hook_stopped = False  # the hook has ended the epoch
        self._fed_by_hook: list[tuple[Any, Any]] = []  # inputs and their batches, of a hook that has not returned
        self._unfed: deque[Record] = deque()  # in order; the others wait for the first
        self._feeding = threading.RLock()
        self._closed = False

    def asks_here(self, hook: bool) -> bool:
        """Whether this thread is in a source's callback (with `hook`: or in the legacy hook)."""
        return self._lock.held_here() and (hook or self._pulling)

    def _asks_in(self, frame: FrameType) -> bool:
        """Whether a stack, given by its innermost frame, asks the sources of this pipeline or calls its hook."""
        return any(outer.f_locals.get("self") is self for outer in frames_of(frame, _ADVANCE))

    @property
    def started(self) -> bool:
        """Whether the queue of this epoch has been filled for the first time."""
        return self._started

    # --- queueing

    def start_with_one(self) -> None:
        """Make the first :meth:`schedule` of an epoch queue one iteration instead of filling the queue.

        For a program that feeds one batch at a time.
        """
        if not self._started:
            self._kept, self._due, self._started = len(self.in_flight), self.launched, True

    def schedule(self, hook: Callable[[], None] | None) -> None:
        """Queue one more iteration; at the start of an epoch, as many as the queue holds.

        `hook` runs before each iteration is fed, and may end the epoch. None: there is none."""
        with self._lock.held():
            if not self._begin(False):
                return
            if not self._open:
                self._due, self._kept, self._open = self._due + 1, self._kept + 1, True
            self._catch_up(hook)
            self._open = False

    def fill(self, hook: Callable[[], None] | None, awaited: bool = False) -> None:
        """Queue what is missing: each of :attr:`calls` gets an iteration, and the queue stays full. An iterator is one call.

        `awaited`: the caller waits for the iteration next."""
        with self._lock.held():
            if self._begin(awaited):
                self._due = self.launched + max(0, self._kept + max(1, len(self.calls)) - len(self.in_flight))
                self._catch_up(hook)

    def keep_ahead(self, iterations: int) -> None:
        """In this epoch, keep at least so many iterations in flight beside the one that is awaited."""
        self._kept = max(self._kept, iterations)

    def keep(self, iterations: int) -> None:
        """From now on, keep so many iterations in flight beside the one that is awaited."""
        self._kept = iterations

    def fetched(self) -> None:
        """An iteration is fetched that :meth:`schedule` has queued."""
        self._kept = max(0, self._kept - 1)

    def _begin(self, awaited: bool) -> bool:
        """Before iterations are queued. False if the epoch has no more data."""
        self._awaited = awaited
        self.complete_launch()
        if self.ended:
            return False
        if not self._started:
            self.sources.start()
            ahead = max(0, self._depth - 1 + self._more)
            self._kept, self._due, self._more, self._started = len(self.in_flight) + ahead, self.launched + ahead, 0, True
        return True

    def _catch_up(self, hook: Callable[[], None] | None) -> None:
        while self.failure is None and self.launched < self._due and self._advance(hook):
            pass

    def _advance(self, hook: Callable[[], None] | None) -> bool:
        try:
            self._pulling = True
            pulled = self.sources.pull(self.launched)
            self._pulling = False
            if hook is not None and self._hooked != self.launched:
                self._call(hook)
                if self._hook_stopped:
                    raise StopIteration
        except StopIteration:
            with uninterrupted():  # what the end was is not known to the next call
                self.sources.drop()
                self._hook_stopped = False
                if self._resets > 0:
                    self._resets -= 1
                    self._next_epoch()
                    return True
                self.ended, self._end_is_near = True, False
            return False
        except Exception as error:
            if raised_by_signal(error):  # the next call asks again
                raise
            # Batches in flight are returned before the error. `set_aside` drops the traceback of the waiting error, which would keep the
            # pipeline alive.
            self.failure = set_aside(error) if self.in_flight else error
            return False
        self._launch(pulled)
        return True

    def _call(self, hook: Callable[[], None]) -> None:
        """Call the legacy hook for the next iteration. What a hook has fed that does not return is dropped, so that inputs stay in step."""
        with delayed():  # the hook reads its own iterator, and feeds several inputs: an exception in between would lose a batch
            self._in_hook = True
            self._drop_fed_by_hook()  # after an exception of a handler that could not be delayed
            try:
                if not self._hook_stopped:
                    hook()
                    self._fed_by_hook, self._hooked = [], self.launched
            except StopIteration:
                self._hook_stopped = True  # until the end is known: a delayed handler may raise now
            finally:
                self._drop_fed_by_hook()
                self._in_hook = False

    def _drop_fed_by_hook(self) -> None:
        for port, batch in self._fed_by_hook:
            port.take_back(batch)
        self._fed_by_hook = []

    def _launch(self, pulled: Fed) -> None:
        """If this is interrupted, the next call asks for the same data again, or queues the same record."""
        record = self._executor.new_record(self.launched, self._batch_size)
        record.place = (self.sources.epoch, self.sources.iteration)
        record.fed = pulled
        for puller in self.sources.pullers:
            if puller.origins is not None:
                record.origins = {**record.origins, puller.group.name: puller.origins}
            if puller.workers is not None:
                record.workers = {**record.workers, puller.group.name: puller.workers}
        if self.sources.stateful:
            record.sources = self.sources.before()
        self._launching = record
        self._queue(record)
        self._launching = None

    def complete_launch(self) -> None:
        """Queue the iteration of which an interrupt has left some steps undone."""
        if self._launching is not None:
            with self._lock.held():
                if self._launching is not None:
                    self._queue(self._launching)
                    self._launching = None

    def _queue(self, record: Record) -> None:
        """Each step may be repeated."""
        if self.launched == record.index and (not self.in_flight or self.in_flight[-1] is not record):
            self.in_flight.append(record)
        if not self.sources.pushed:
            if record.fed or self._part is not None:
                self._set_size(record)
            self.launched = record.index + 1
            self._executor.submit(record, self._awaited)
            return
        if self.launched == record.index:
            if not self._unfed or self._unfed[-1] is not record:
                self._unfed.append(record)
            self.launched = record.index + 1
        self._feed_waiting()

    def _set_size(self, record: Record) -> None:
        samples = batch_size_of(record.fed, self._batch_size)
        if self._part is None:
            record.batch_size = samples
        else:
            self._part.apply(record, samples, self._whole)

    def _feed_waiting(self) -> None:
        """Give fed data to the oldest iterations without data, as far as the data goes."""
        with uninterrupted(), self._feeding:  # what is taken from an input's queue would be lost
            if self._closed:
                self._fail_unfed()
            while self._unfed and not self.sources.waits():
                record = self._unfed[0]
                record.sources = {**record.sources, **self.sources.fed_positions()}
                record.fed = self.sources.take_fed(record.fed)
                self._set_size(record)
                self._unfed.popleft()
                self._executor.submit(record)

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Nothing is queued meanwhile, and the executor has finished all that was queued: operators may be used by this thread."""
        with self._lock.held(), self._feeding:
            for record in list(self.in_flight):
                if record not in self._unfed:
                    record.wait()
            yield

    @contextmanager
    def asking(self) -> Iterator[None]:
        """This thread asks the sources outside of :meth:`fill`. No other thread asks them meanwhile."""
        with self._lock.held():
            self._pulling = True
            try:
                yield
            finally:
                self._pulling = False

    def wait_without_frames(self) -> None:
        """The call that queued iterations returns. A source's error waits for another call, so its traceback is dropped."""
        with self._lock.held():
            if self.failure is not None:
                set_aside(self.failure)

    # --- feeding

    def feed(self, node: object, data: object, layout: str | None, stream: object = None) -> None:
        """Queue a batch for a push-mode input; see ``Pipeline.feed_input``."""
        port = self.sources.port(node)
        batch = port.accepted(data, layout, stream)
        if self._lock.held_here() and self._in_hook:  # iterations get the data when the hook has returned
            self._fed_by_hook.append((port, batch))
            port.queue(batch)
            return
        try:
            port.queue(batch)
            self._feed_waiting()
        except BaseException:  # an interrupt: the caller feeds the batch again, if no iteration has taken it
            port.take_back(batch)
            raise

    def feed_count(self, node: object) -> int:
        """Number of batches to feed before the first run."""
        self.sources.port(node)
        return self._depth

    # --- the consumer's side

    def take_failure(self) -> BaseException | None:
        """The pending error of a source, if any. The consumer raises it, and the next iteration asks the source again."""
        error, self.failure = self.failure, None
        if error is not None:
            self.sources.settle()
            self._due = max(self.launched, self._due - 1)  # the call that raises the error gets no batch, so one iteration less is due
        return error

    def place(self, queues_after: bool = False) -> EpochPlace:
        """The consumer's position: before the next batch to be returned.

        `queues_after`: this consumer queues an iteration after it has fetched one, not before, so one more iteration is in flight.
        """
        if self.in_flight:
            return self.place_before(self.in_flight[0], queues_after)
        near = self.ended or self._end_is_near
        self.sources.commit(self.launched)
        if self.ended:
            self.sources.settle()
        ended = "here" if self.ended else "ahead" if near else ""
        return EpochPlace(self.sources.epoch, self.sources.iteration, self.sources.positions(), ended, self._resets, self._more)

    def place_before(self, record: Record, queues_after: bool = False) -> EpochPlace:
        """The place before an iteration in flight."""
        near = self.ended or self._end_is_near
        epoch, iteration = record.place
        resets = self.sources.epoch - epoch + self._resets
        # A reset fills the queue again in addition to the iterations in flight, until the next end is met.
        more = len(self.in_flight) - queues_after - (self._depth - 1 if self._started else 0)
        more = more if near or resets or self._longer else 0
        return EpochPlace(epoch, iteration, record.sources, "ahead" if near else "", resets, more)

    def restore(self, place: EpochPlace) -> None:
        """Go to a saved position. Called before anything is queued, after the sources with a state were brought to their positions."""
        self.sources.seek(place.iteration, place.epoch)
        self.ended = place.ended == "here"
        self._end_is_near = place.ended == "ahead"
        self._resets, self._more, self._longer = place.resets, place.more, place.more > 0

    def reset(self) -> None:
        """Begin the next epoch after the end of the data. Otherwise do nothing."""
        with uninterrupted(), self._lock.held():
            if self._end_is_near:  # the reset took effect when the end was met, or will take effect when the end is met again
                self._end_is_near = False
                self._resets += 1
                self._longer = True
                if not self._started:
                    self._more += self._depth - 1
                return
            if not self.ended:
                return
            self._longer = bool(self.in_flight)
            self._next_epoch()
            self._started = self._open = False
            self._due = self.launched

    def _next_epoch(self) -> None:
        self.sources.commit(self.launched)
        self.sources.settle()
        self.sources.next_epoch()
        self.ended = False

    def close(self) -> None:
        """Queue nothing more. Callers that wait for an iteration without data get PipelineClosed."""
        with self._feeding:
            self._closed = True
            self._fail_unfed()
        self.sources.close()

    def _fail_unfed(self) -> None:
        while self._unfed:
            record = self._unfed.popleft()
            record.fail(0, PipelineClosed("the pipeline was closed while this iteration was in flight"))
            record.finish()


_ADVANCE = {Producer._advance.__code__}
