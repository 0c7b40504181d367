"""The fast path from a call of ``run()`` to its outputs. It works if engines make whole iterations and nothing unusual happens.

Between two calls the engines' work evicts the caches, so each object and each function that a call touches costs microseconds. The fast
path has no record and no request per iteration. Its state is the number of requested iterations and the number of delivered iterations. A
call sends one message, waits for one message, and makes the outputs.

Everything unusual ends the fast path (:meth:`FastPath.settle`): an error, the end of an engine, new memory, a checkpoint, statistics,
another kind of call. The requests in flight become the records and requests of ``loader``, which handles everything. A later call of
``run()`` begins the fast path again (:meth:`FastPath.enter`).

Interrupts and threads: CPython handles signals and switches threads after calls, at the begin of functions and in loops, and nowhere else.
So assignments in a row happen together. (Python 3.10 handles signals between assignments, too, and has no fast path.) A call takes its
iteration by such a row, at its end. Everything before the row can be repeated: a received message stays in the buffer until its iteration
is taken. ``term`` counts how often the fast path has begun (0: it does not work). A call that finds another number than at its begin takes
nothing.
"""

from __future__ import annotations

import itertools
import os
import struct
import sys
import weakref
from collections.abc import Callable
from time import perf_counter_ns as now
from typing import TYPE_CHECKING

from asyncdali_workers.interrupts import uninterrupted

from ..batch import Batch
from ..tensors import TensorListCPU, TensorListGPU
from ..tensors.lists import cpu_list
from . import channel as channels
from . import fixed
from .encoding import SourceInfo
from .steps import RENEWED, Base, Behind

if TYPE_CHECKING:
    from ..runtime.session import Session
    from .handover import Handover
    from .places import Place

_MANY = 64
"""Number of calls whose times are kept before the statistics get them."""

Outputs = tuple[TensorListCPU | TensorListGPU, ...]
Usual = Callable[[], Outputs]

ATOMIC = sys.version_info >= (3, 11) and getattr(sys, "_is_gil_enabled", lambda: True)()
"""Whether assignments in a row happen together, see the module."""

_paths: weakref.WeakSet[FastPath] = weakref.WeakSet()


def _after_fork() -> None:
    """In a forked child the sockets belong to the parent."""
    for path in _paths:
        path.term = 0


os.register_at_fork(after_in_child=_after_fork)


class FastPath:
    """See the module. A session has at most one. Any thread may call."""

    def __init__(self, handover: Handover, session: Session, order: list[int], count: int):
        """`count` is the number of batches that an answer contains; `order` are the numbers of those that are outputs."""
        self._handover, self._session, self._counters = handover, session, session.counters
        self._order = None if order == list(range(count)) else order
        self._count = count
        self._answer = struct.Struct(f"<ii{5 + 6 * count}q")
        self._requests: dict[int, struct.Struct] = {}
        self._limited = session.options.engine_timeout is not None
        self._samples, self._depth = int(session.options.batch_size), session.depth
        self._terms = itertools.count(1)
        self.term = 0
        self._busy = False  # a call is in the fast path, or was interrupted there
        self._waiting = False  # a call is receiving
        self._buffer = bytearray()
        self._head = memoryview(self._buffer)
        self._base: Base | None = None
        self._ends: list[tuple[Place, Callable[..., int], Callable[..., int]]] = []
        self._shift = 0  # steps behind the base of an iteration, less its index
        self._requested = self._sent = self._delivered = 0
        self._entered = self._entered_at = 0  # iterations requested and delivered before the fast path began
        self._iteration = 0  # number of an iteration in its epoch, less its index
        self._kinds: tuple[int, ...] = ()  # templates of the last outputs
        self._times = [(0, 0, 0)] * _MANY  # of calls: begin, return, and the time when the engine was done
        self._called = 0  # number of calls in `_times`
        _paths.add(self)

    @property
    def iteration(self) -> int:
        """See ``engine_protocol.FastPath``."""
        return self._delivered + self._iteration if self.term else -1

    # --- one call

    def next(self, usual: Usual) -> Outputs:
        """The outputs of the next iteration. `usual` is called, and goes on from here, if the fast path has ended."""
        came = now()
        term, counters = self.term, self._counters
        if not term or self._busy or (counters is not None and counters.recorder is not None):
            return self._leave(usual)
        self._busy = True
        if self._called == _MANY:
            self._add_calls()
        index, ends = self._requested, self._ends
        if index - self._delivered < self._depth:
            place, send, _ = ends[index % len(ends)]
            steps = index + self._shift
            if steps >= RENEWED:  # this request also asks for positions
                return self._leave(usual)
            returned = place.engine.returned
            leases = tuple(returned)
            message = self._requests.get(len(leases)) or self._request_of(len(leases))
            data = message.pack(0, index, 0, index, self._samples, steps, *leases)
            if self.term != term:
                return self._leave(usual)
            self._requested = index + 1
            try:
                send(data, channels.AT_ONCE)
            except OSError:  # the engine has ended
                return self._leave(usual)
            if self.term != term:
                return self._leave(usual)
            self._sent = index + 1
            for _ in leases:  # a lease that is returned twice does no harm, but a lost lease would lose memory
                if self.term == term:
                    returned.popleft()
        index = self._delivered
        place, _, receive = ends[index % len(ends)]
        engine, buffer, head = place.engine, self._buffer, self._head
        self._waiting = True
        try:
            size = -1
            while size < 0:
                try:
                    size = receive(buffer)
                except BlockingIOError:  # after a long time: another thread may have ended the fast path, or an engine is late
                    if self.term != term or self._limited:
                        raise
        except OSError:
            self._waiting = False
            return self._leave(usual)
        except BaseException:
            self._waiting = False
            raise
        self._waiting = False
        if self.term != term:
            if size:
                self._handover.pass_on(place, engine, _message(buffer))
            return self._leave(usual)
        values = self._answer.unpack_from(buffer)
        if not size or values[0] or values[1] != self._count or values[2] != index or values[3]:
            return self._leave(usual)
        valid = [False]
        batches: list[Batch] = []
        made: list[TensorListCPU] = []
        try:
            body = memoryview(buffer)[self._answer.size : size]
            info: SourceInfo | None = None
            info_at = -1
            for at in range(7, len(values), 6):
                batch = engine.templates[values[at]].batch(
                    values[at + 1], values[at + 2], values[at + 3], body, engine.blocks, engine.returned, valid
                )
                start, length = values[at + 4], values[at + 5]
                if length >= 0:
                    if info is None or start != info_at:
                        info, info_at = SourceInfo(bytes(body[start : start + length]), self._samples), start
                    batch.source_info = info
                batches.append(batch)
                made.append(cpu_list(batch))
        except (ValueError, MemoryError, IndexError):  # the usual way finds this again, and makes an error of it
            return self._leave(usual)
        if counters is not None:
            if values[7::6] != self._kinds:
                self._note_shapes(values[7::6], batches)
            counters.note_held(batches)
        outputs = tuple(made) if self._order is None else tuple([cpu_list(batches[k]) for k in self._order])
        left, times, called = now(), self._times, self._called
        if self.term != term:
            return self._leave(usual)
        # Nothing comes between these lines, see the module.
        place.busy += values[4]
        times[called] = came, left, values[5]
        self._called = called + 1
        valid[0] = True
        self._delivered = index + 1
        head[0] = 0
        self._busy = False
        return outputs

    def _leave(self, usual: Usual) -> Outputs:
        self.settle()
        return usual()

    def _request_of(self, leases: int) -> struct.Struct:
        found = self._requests[leases] = struct.Struct(f"{fixed.REQUEST.format}{leases}q" if leases else fixed.REQUEST.format)
        return found

    # --- statistics

    def _note_shapes(self, kinds: tuple[int, ...], batches: list[Batch]) -> None:
        self._add_calls()
        self._handover.note_shapes(batches)
        self._kinds = kinds

    def _add_calls(self) -> None:
        """Add the times of the calls to the statistics."""
        times, count = self._times, self._called
        self._times, self._called = [(0, 0, 0)] * _MANY, 0
        if count and self._counters is not None:
            self._counters.received(times[:count], self._depth, self._samples)
            self._handover.count_iterations(count)

    # --- begin and end

    def enter(self) -> bool:
        """Begin the fast path if nothing unusual is going on. For a call that is about to run an iteration."""
        if self.term or self._waiting:
            return False
        session = self._session
        producer, counters = session.producer, self._counters
        if session.owed or (counters is not None and counters.recorder is not None):
            return False
        with uninterrupted(), session.quiet() as quiet, self._handover.deciding:
            if not quiet or len(producer.in_flight) != self._depth - 1:
                return False
            stop = producer.launched
            first = stop - self._depth + 1
            given = self._handover.give(range(first, stop))
            if given is None:
                return False
            self._base, self._shift, places = given
            self._shift -= stop
            self._ends = [(place, place.engine.channel.send, place.engine.channel.recv_into) for place in places]
            self._requested = self._sent = self._entered = stop
            self._delivered = self._entered_at = first
            self._iteration = producer.sources.next_iteration(stop) - stop
            self._buffer = bytearray(channels.LARGEST)
            self._head = memoryview(self._buffer)[:8].cast("q")
            self._kinds = ()
            producer.in_flight.clear()
            self._busy = False
            self.term = next(self._terms)
        return True

    def settle(self) -> None:
        """End the fast path. Its requests become records and requests of the usual way. Without the fast path, nothing happens."""
        if not self.term:
            return
        with uninterrupted(), self._handover.deciding:
            if self.term:
                self._settle()

    def _settle(self) -> None:
        handover, session = self._handover, self._session
        producer = session.producer
        self.term = 0
        base, requested, delivered = self._base, self._requested, self._delivered
        assert base is not None
        if requested > self._entered:
            producer.sources.skip_to(requested - 1, requested - 1 + self._iteration)
        for index in range(delivered, requested):
            record = producer.continued(index, index + self._iteration)
            place = self._ends[index % len(self._ends)][0] if index < self._sent else None
            handover.take_back(record, base, index + self._shift, place)
        handover.go_on(requested, requested + self._shift)
        producer.launched = requested
        if delivered > self._entered_at:
            session.moved_on(Behind(base, delivered + self._shift))
        session.owed += max(0, requested - delivered - (self._depth - 1))  # an interrupted call has requested an iteration
        self._count_places()
        self._add_calls()
        if not self._waiting and self._head[0]:
            place = self._ends[delivered % len(self._ends)][0]
            handover.pass_on(place, place.engine, _message(self._buffer))
            self._head[0] = 0
        handover.dispatch()

    def _count_places(self) -> None:
        for index in range(self._entered, self._requested):
            self._ends[index % len(self._ends)][0].asked += 1
        for index in range(self._entered_at, self._delivered):
            self._ends[index % len(self._ends)][0].answered += 1


def _message(buffer: bytearray) -> bytes:
    """The message at the begin of a buffer."""
    length = fixed.answer_length(buffer) if buffer.startswith(fixed.MARK) else channels.length_of(buffer)
    return bytes(buffer[:length])
