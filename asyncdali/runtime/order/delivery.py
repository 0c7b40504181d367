"""Delivery of iterations to the consumer, and the consumer's position.

The consumer takes the oldest iteration, or, where batches may overtake (``fn.experimental.ready``), the oldest one that is finished. One
step moves the consumer on. An interrupt before it leaves the iteration to the next call; an interrupt behind it is answered with
:meth:`Delivery.give_back` or :meth:`Delivery.drop`. The position is right before and after each step, so a checkpoint may be taken at any
time, on any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

from asyncdali_workers.interrupts import raised_by_signal

from ...errors import PipelineClosed
from ...system.deadlocks import PatientLock
from ...tensors import TensorListCPU, TensorListGPU
from ..work.output_lists import OutputLists
from .executor import Executor
from .moments import NO_CHOICES, Moment
from .producer import EpochPlace, Producer
from .record import Record
from .turns import Turn, Turns

if TYPE_CHECKING:
    from ..repairs.bad_samples import Repairs


class Mark(NamedTuple):
    """The consumer's position: everything in a checkpoint except the graph. Cheap to make and to keep."""

    positions: Mapping[str, Any]
    place: EpochPlace


class Delivery:
    """Hands the iterations of one pipeline over, one after another.

    Attributes:
        in_flight: records of the iterations queued and not yet returned.
        lists: makes what users get of batches.
        explain: gives the function that makes the provenance of a moment, while the pipeline lives.
        iterator_data: the data of an iterator, in the checkpoint of the present position.
    """

    def __init__(
        self,
        producer: Producer,
        executor: Executor,
        lists: OutputLists,
        repairs: Repairs | None,
        positions: Mapping[str, object],
        check_open: Callable[[BaseException | None], None],
    ):
        """`repairs` replaces bad samples; None: an error fails its iteration. `check_open`: see ``Session.check_open``.

        `positions`: of stateful operators, before the first iteration."""
        self.in_flight = producer.in_flight
        self.lists = lists
        self._repairs = repairs
        self.explain: Callable[[], Callable[[Moment], object] | None] = lambda: None
        self.iterator_data: object = None
        self._producer = producer
        self._placement = executor.placement
        self._counters = executor.counters
        self._check_open = check_open
        self._positions = positions
        self._fetching = PatientLock(self._is_waited_for)
        self._overtaking = False  # True: iterations are taken in the order in which they are finished
        self._newest_taken = -1  # the largest index of an iteration that was taken, if iterations overtake
        self._turns = Turns()

    def begin_at(self, positions: Mapping[str, object]) -> None:
        """Before the first iteration: the stateful operators were brought to these positions."""
        self._positions = positions

    # --- queues of callers

    def turn(self) -> Turn:
        """The calling coroutine's place in the queue for iterations."""
        return Turn(self._turns, self._can_serve)

    def _can_serve(self) -> bool:
        """Whether a caller whose turn has come would not have to wait."""
        try:
            return self.in_flight[0].finished
        except IndexError:  # no iteration is queued
            return True

    def arrives(self) -> None:
        """The consumer begins to wait for the next iteration. Counted once."""
        if self._counters is not None:
            self._counters.arrives(self.in_flight)

    def _is_waited_for(self, frame: FrameType) -> bool:
        """Whether a stack runs a segment of the oldest iteration, for which all consumers wait."""
        queue = list(self.in_flight)
        return bool(queue) and not queue[0].finished and queue[0].runs_in(frame)

    # --- taking iterations

    def nothing_left(self) -> BaseException:
        """The exception to raise when no iteration is in flight: a source's error, or StopIteration."""
        error = self._producer.take_failure()
        return StopIteration() if error is None else error  # an exception of a program may be false

    def fetch(
        self, stream: Any = None, caller: Any = None, then: Callable[[Any], Any] | None = None, taken: list[Record] | None = None
    ) -> Any:
        """Wait for the oldest iteration and return its outputs, or raise its error. The consumer moves on in both cases.

        Any other exception leaves the iteration to the next call. GPU outputs are complete on return. With a `stream` they are only ordered
        before the later work of that stream. Threads that fetch at the same time are served one after another. `caller`: the member of
        ``Producer.calls`` that this call is. `then`: makes the result of the outputs, before the consumer moves on. `taken`: gets the
        iteration whose outputs are returned, for :meth:`give_back`.
        """
        record: Record | None = None
        try:
            with self._fetching.held():
                record = self._oldest(complete=stream is None)
                outputs: Any = self._outputs(record, stream)
                if then is not None and record.error is None:
                    outputs = then(outputs)
                self._producer.calls.discard(caller)
                if taken is not None and record.error is None:
                    taken.append(record)
                self._take(record)
            if record.error is not None:
                raise record.error
            return outputs
        except BaseException as error:
            self._check_open(error)
            if record is None:
                pass
            elif error is record.error:
                record.error = None  # the record must not keep the frames of its traceback alive
            else:
                try:
                    self.give_back(record, taken)
                except BaseException:  # another signal's handler has raised meanwhile
                    self.give_back(record, taken)
                    raise
            raise

    def hand_over(self, stream: object, keep: Callable[[Record, object], None], overtaking: bool = False) -> None:
        """Wait for the oldest iteration, and call ``keep(record, outputs)``, or ``keep(record, error)``. The consumer then moves on.

        After an interrupt the consumer knows whether it has the iteration. If it has, it calls :meth:`drop`. `overtaking`: wait for any
        iteration, and take the oldest one that is finished.
        """
        with self._fetching.held():
            record = self._first_done() if overtaking else self._oldest(complete=stream is None)
            outputs = self._outputs(record, stream)
            error = record.error
            if isinstance(error, PipelineClosed):
                self._check_open(None)
            try:
                keep(record, outputs if error is None else error.with_traceback(None))  # without frames, which refer to the consumer
            finally:
                del error
            self.drop(record)

    def drop(self, record: Record) -> None:
        """The consumer has this iteration already."""
        record.error = None  # only now: before, an interrupt would lose it
        if record in self.in_flight:
            self._take(record)

    def _first_done(self) -> Record:
        """The oldest iteration that is finished. Waits for one."""
        self._overtaking = True
        self._producer.complete_launch()
        queue = list(self.in_flight)
        if not queue:
            raise self.nothing_left()
        if not any(record.finished for record in queue):
            self._placement.wait_for_any(queue)
        previous: Record | None = None
        for record in queue:  # without lanes, those before a finished one are planned, so their positions are known
            if record.before is None:
                follows = previous is not None and previous.index + 1 == record.index
                known = previous.positions if previous is not None and follows else self._positions
                record.before = known if record.given is None else record.given
            if record.finished:
                break
            previous = record
        if record.weight and not record.arrived:
            self._counters.arrives((record,))  # type: ignore[union-attr]
        return record

    def _take(self, record: Record) -> None:
        """The consumer moves on behind an iteration. The last step does it; :meth:`mark` is right before and after each step."""
        record.before = record.before or self._positions
        if self._overtaking:
            self._overtake(record)
        else:
            self._positions = record.positions
        try:
            self.in_flight.remove(record)
        except ValueError:  # closed meanwhile
            pass

    def _overtake(self, record: Record) -> None:
        """The next iteration begins where this one ends. Iterations that are queued later begin behind the newest one that was taken."""
        for other in list(self.in_flight):
            if other.index == record.index + 1:
                other.before = other.before or record.positions
        if record.index > self._newest_taken:
            self._positions, self._newest_taken = record.positions, record.index

    def give_back(self, record: Record, taken: list[Record] | None = None) -> None:
        """A call that has taken an iteration does not return it: the next call does. May be repeated. `taken`: see :meth:`fetch`."""
        if record not in self.in_flight:
            self.in_flight.appendleft(record)
        if taken is not None:
            taken.clear()

    async def device_done(self) -> None:
        """Wait, without blocking the event loop, until the GPU has made the outputs of the oldest iteration."""
        head = self._head()
        if head is not None:
            await self._placement.made(head.outputs)

    def _oldest(self, complete: bool) -> Record:
        """The iteration that is returned next, when it is finished. `complete`: its outputs will be waited for, too."""
        self._producer.complete_launch()
        record = self._head()
        if record is None:
            raise self.nothing_left()
        if record.weight and not record.arrived:
            self._counters.arrives(self.in_flight)  # type: ignore[union-attr]
        self._placement.wait(record, complete)
        return record

    def _outputs(self, record: Record, stream: object) -> tuple[TensorListCPU | TensorListGPU, ...]:
        """The outputs of a finished iteration. Empty if it has an error; an error of delivering them becomes the iteration's error."""
        self.iterator_data = None  # the data of a checkpoint described the previous position
        repairs = self._repairs
        if repairs is not None and (record.error is not None or repairs.may_drop):
            self._repair(repairs, record)
        if self._counters is not None:
            self._counters.fetched(record, record.outputs)
        if record.error is None and self.lists.expects:
            record.error = self.lists.mismatch(record.outputs)
        if record.error is not None:
            return ()
        try:
            self._placement.complete(record.outputs, stream)
            return self.lists.of(record.outputs, self.moment(record))
        except Exception as error:
            if raised_by_signal(error):
                raise
            record.error = error
            return ()

    def _repair(self, repairs: Repairs, record: Record) -> None:
        """Replace or drop the bad samples of an iteration. If this is interrupted, the next call does it again."""
        positions = record.before or self._positions
        if record.error is not None:
            repairs.repair(record, positions)
            record.choices = NO_CHOICES  # the kept ones are of the iteration that failed
        elif repairs.may_drop and record.outputs:
            record.outputs = repairs.drops_of(record, positions)

    def moment(self, record: Record) -> Moment:
        """The position at which the oldest iteration was made."""
        epoch, step = record.place
        count = record.batch_size
        whole, handed = (record.whole, (record.first, record.first + count)) if record.whole else (count, record.handed or (0, count))
        return Moment(
            self.explain, step, epoch, record.before or self._positions, whole, handed, record.origins, record.choices, record.engine,
            record.workers,
        )  # fmt: skip

    # --- the position

    def mark_before(self, record: Record) -> Mark:
        """The position before an iteration in flight that :meth:`hand_over` hands over."""
        place, before = self._producer.place_before(record), record.before or {}
        return Mark({**before, **place.sources} if place.sources else before, place)

    def mark(self, queues_after: bool = False) -> Mark:
        """The consumer's position: after the last iteration that was returned, and after all errors and ends that were raised.

        `queues_after`: see :meth:`Producer.place`.
        """
        while True:  # repeated if another thread takes an iteration meanwhile
            head, moved = self._head(), self._positions
            positions = moved if head is None or head.before is None else head.before  # set: taken and given back, or about to be taken
            place = self._producer.place(queues_after)
            if self._head() is head and self._positions is moved:
                return Mark({**positions, **place.sources} if place.sources else positions, place)

    def _head(self) -> Record | None:
        """The iteration that is returned next."""
        try:
            return self.in_flight[0]
        except IndexError:
            return None
