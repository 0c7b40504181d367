"""Requests, answers, and the order of iterations. One thread of the training process at a time decides.

If engines make whole iterations, the threads that call the pipeline decide: a waiting call receives the answers (:meth:`Loader.drive`).
No other thread is woken, and nothing runs beside the training step. Only the end of an engine wakes the loop's thread. Otherwise the loop's
thread decides: segments behind the cut begin when an answer arrives, and a coroutine does not wait on a thread.

A request for an iteration contains the positions before it. The least busy engine gets the request; this choice is only a hint. Answers are
delivered in order. When an engine ends, its iterations are requested again, from the same positions. An iteration at which two engines
ended has failed.
"""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from asyncdali_workers.interrupts import uninterrupted

from ..errors import PipelineClosed
from ..graph.plan import Plan
from ..runtime.executor import Executor
from ..runtime.loop import LoopThread
from ..runtime.record import Record
from ..runtime.segments import BuiltSegment, SegmentRun
from . import channel as channels
from .answers import Answers
from .cut import Cut
from .encoding import Frame
from .fast_path import ATOMIC, FastPath
from .faults import Faults
from .handover import Handover
from .ordered import Asked, Ordered
from .places import WINDOW, WINDOW_OF_GPU, Place, Request
from .receiver import Receiver
from .sending import Sender
from .source_requests import SourceRequests
from .steps import Base, Behind

if TYPE_CHECKING:
    from ..runtime.session import Session
    from .pool import EnginePool, EngineProcess

PAUSE = 0.5
"""Longest time (s) that a waiting call sleeps before it checks whether the loop's thread has taken over."""


class Loader(Ordered[Request]):
    """Runs the segment before the cut in engines.

    Its parts: :class:`Sender` (requests), :class:`Answers` (messages of engines), :class:`Faults` (engines that end or hang),
    :class:`SourceRequests` (calls of sources).
    """

    kind = Request

    def __init__(self, pool: EnginePool, cut: Cut, plan: Plan, executor: Executor, segment: BuiltSegment):
        if executor.gpu is not None:
            self._receiver = Receiver(executor.threads.rstrip("-"))
            executor.admits, executor.helps = self._receiver.call, self._receiver.help
            if executor.reports is not None:
                self._receiver.call(self._receiver.add_reader, executor.reports.descriptor, executor.reports.report)
        super().__init__(cut, plan, executor, segment)
        self._caller: LoopThread | Receiver = self._receiver or self._loop
        self.pool = pool
        self.places = [Place(engine) for engine in pool.engines]
        self.window = WINDOW if executor.gpu is None else WINDOW_OF_GPU
        """Most iterations in flight per engine."""
        self.sources = SourceRequests(self, [planned.spec.name for planned in cut.before if cut.called(planned)])
        self._fed += tuple(self.sources.names)
        self.sender, self.answers, self.faults = Sender(self), Answers(self), Faults(self)
        self._stateful = {built.planned.spec.name: built for built in segment.stateful}
        self.base: Base | None = None
        self.steps = self._bases = 0
        self.before: Behind | None = None  # positions before the next iteration; the same as `base` moved on by `steps`
        self.deciding = threading.RLock()
        """Held by the thread that decides."""
        self._later: deque[Callable[[], None]] = deque()
        self._poll = select.poll()
        self._receiving = threading.Lock()  # a poll object serves one thread at a time
        self._channels: dict[int, Place] = {}
        self._ends = select.epoll()  # reports the ends of engines, but not their messages
        self._fast_path: weakref.ref[FastPath] | None = None
        self.is_here = True
        """Whether the threads that call the pipeline decide."""
        for place in self.places:
            self.await_messages(place)
        self.is_here = self._may_stay(pool.depth)
        if self.is_here:
            executor.here = self
            executor.start_at_once(segment)
            self._loop.call(self._loop.add_reader, self._ends.fileno(), self._engine_ended)
        else:
            self._caller.call(self._listen_all)

    def _may_stay(self, depth: int) -> bool:
        """Whether nothing has to happen between two calls of the pipeline."""
        behind = len(self.executor.outputs) and self.executor.is_single(self.segment)
        requests_fit = depth <= self.window * len(self.places)
        return bool(behind) and requests_fit and not self.sources.names and not self._chained and self.executor.gpu is None

    # --- decisions on the threads that call the pipeline (``runtime.engine_protocol.Here``)

    def decide(self, function: Callable[..., None], *args: Any) -> bool:
        if not self.is_here:
            return False
        with uninterrupted(), self.deciding:
            if not self.is_here:
                return False
            try:
                function(*args)
                while self._later:
                    self._later.popleft()()
            except Exception as error:
                self.executor.broke(error)
            return True

    def drive(self, record: Record) -> bool:
        pause = PAUSE if self.pool.timeout is None else min(PAUSE, self.pool.timeout / 4)
        while not record.finished:
            if not self.is_here:
                return False
            self.receive(pause, record)
        return True

    def receive(self, seconds: float, record: Record | None = None) -> None:
        """Wait for answers, and handle those that have arrived. Signals interrupt the wait."""
        with self._receiving:
            if record is not None and record.finished:  # another thread has received it
                return
            found = self._poll.poll(seconds * 1000)
        if not found:
            self.decide(self.faults.look_once)
        for descriptor, _ in found:
            place = self._channels.get(descriptor)
            if place is not None:
                self.decide(self._readable, place, place.engine)

    def _soon(self, function: Callable[[], None]) -> None:
        if self.is_here:
            self._later.append(function)
        else:
            super()._soon(function)

    def leave_to_loop(self) -> None:
        with uninterrupted(), self.deciding:
            if self.is_here:
                self.is_here = False
                self.executor.here = None
                self._loop.call(self._loop.remove_reader, self._ends.fileno())
                self._caller.call(self._listen_all)
                self._caller.call(self.faults.watch_soon)

    def await_messages(self, place: Place) -> None:
        """From now on messages of an engine are received."""
        self._channels[place.engine.channel.fileno()] = place
        self._poll.register(place.engine.channel, select.POLLIN)
        self._ends.register(place.engine.channel, 0)
        if not self.is_here:
            self._listen(place)

    def _engine_ended(self) -> None:
        """Replace engines that ended, on the loop's thread, because no call may be waiting. The loop calls again until they are replaced:
        an engine may have sent messages before it ended."""
        for descriptor, _ in self._ends.poll(0):
            place = self._channels.get(descriptor)
            path = None if self._fast_path is None else self._fast_path()
            if path is not None:
                path.settle()
            if place is not None:
                self.decide(self._readable, place, place.engine)

    # --- the fast path

    def fast_path(self, session: Session) -> FastPath | None:
        """The fast path for calls of ``run()``. None if every call has something to do that the fast path does not know."""
        crossing, outputs = self.cut.crossing, self.executor.outputs
        unusual = session.part is not None or session.checks_outputs or session.producer.sources.ports
        if not self.is_here or unusual or not session.options.exec_async or not ATOMIC:
            return None
        path = FastPath(Handover(self), session, [crossing.index(edge) for edge in outputs], len(crossing))
        self._fast_path = weakref.ref(path)
        return path

    # --- for the parts of the loader

    def request(self, function: Callable[..., None], *args: Any) -> None:
        """Call a part of the loader on the thread that receives. May be called from any thread."""
        self._caller.call(self._decide, function, *args)

    def request_later(self, seconds: float, function: Callable[..., None]) -> None:
        """As :meth:`request`, in some seconds."""
        self._caller.call_later(seconds, self._decide, function)

    @property
    def on_its_thread(self) -> bool:
        """Whether the caller is on the thread that receives, if calls do not."""
        return self._caller.is_current()

    @property
    def is_receiving(self) -> bool:
        """Whether a call receives messages."""
        return self._receiving.locked()

    def go_forward(self) -> None:
        """Deliver what has arrived, and send what is not sent."""
        self._deliver()
        self._dispatch()

    # --- requests

    def begin(self, run: SegmentRun) -> None:
        record = run.record
        counters = self.executor.counters
        traced = counters is not None and counters.recorder is not None
        if not self.is_here or self._fed or record.whole or self.broken is not None or traced:
            self._settle()
            super().begin(run)
            return
        base = self.base
        if base is None or base.samples != record.batch_size:
            self._settle()
            positions = {name: built.position for name, built in self._stateful.items()}
            base = self.base = self._new_base(positions, record.batch_size)
        before = Behind(base, self.steps) if self.before is None else self.before
        asked = self.asked[record.index] = Request(run, before)
        asked.base, asked.steps = base, self.steps
        self.steps += 1
        record.positions = self.before = Behind(base, self.steps)
        run.committed = True
        place = self.sender.room(asked)
        if place is not None:
            self.sender.send(asked, place)

    def _new_base(self, positions: Mapping[str, Any], samples: int) -> Base:
        self._bases += 1
        self.steps, self.before = 0, None
        return Base(self._bases, self._stateful, positions, samples)

    def _settle(self) -> None:
        """Bring the operators to their positions: the next request contains them."""
        if self.base is not None:
            self.segment.go_to(self.base.at(self.steps))
            self.base = None

    def stands(self, number: int, steps: int, data: dict[str, Any]) -> None:
        """An engine reports the positions `steps` iterations behind a base. Later requests are counted from there."""
        base = self.base
        if base is not None and base.number == number and 0 < steps <= self.steps:
            ahead = self.steps - steps
            positions = {name: built.load(data[name]) for name, built in self._stateful.items()}
            self.base = self._new_base(positions, base.samples)
            self.steps, self.before = ahead, None

    def _correct(self, asked: Asked, produced: dict[str, int]) -> None:
        """An iteration's data changed the positions unexpectedly. From now on each request waits for the answer to the previous one."""
        self._settle()
        for item in self.asked.values():
            if item.base is not None:
                item.run.record.positions = {}
                self.packed(item, self.sender.packer, Frame())
                item.base = None
        self.executor.start_in_turns()
        self.leave_to_loop()
        super()._correct(asked, produced)

    def _pack(self, asked: Request) -> None:
        self.sender.pack(asked)

    def _withdraw(self, asked: Request) -> None:
        asked.engine, asked.search = None, None

    def _dispatch(self) -> None:
        """Send requests that no engine works on to engines with room."""
        if self.closed or self.broken is not None:
            return
        for asked in self.asked.values():
            if asked.engine is None and asked.answer is None and asked.error is None:
                place = self.sender.room(asked)
                if place is not None:
                    self.sender.send(asked, place)
                elif asked.home is None:
                    return

    def _place(self, asked: Asked) -> None:
        assert isinstance(asked, Request)
        if asked.base is None:
            super()._place(asked)
        else:
            asked.header.update(base=[asked.base.number, asked.base.samples, asked.base.data()], steps=asked.steps, g=asked.generation)

    # --- answers

    def _listen_all(self) -> None:
        with self.deciding:  # the thread that handed over may still be deciding
            if not self.closed:
                for place in self.places:
                    self._listen(place)

    def ignore(self, place: Place) -> None:
        """Undo :meth:`await_messages`."""
        descriptor = place.engine.channel.fileno()
        if self._channels.pop(descriptor, None) is not None:
            self._poll.unregister(descriptor)
            with contextlib.suppress(ValueError):  # closed
                self._ends.unregister(descriptor)
            if not self.is_here:
                self._caller.remove_reader(descriptor)

    def _listen(self, place: Place) -> None:
        self._caller.add_reader(place.engine.channel.fileno(), self._decide, self._readable, place, place.engine)

    def _readable(self, place: Place, engine: EngineProcess) -> None:
        # Read one message only. A second read would usually raise BlockingIOError, and the loop calls again if there are more messages.
        if engine.ended or self.closed:
            return
        try:
            data, descriptors = channels.receive_now(engine.channel)
        except BlockingIOError:
            return
        if not data:
            self.faults.lost(place, engine)
            return
        self.answers.receive(place, engine, data, descriptors)

    def give_up(self, reason: str) -> None:
        self.sources.fail(RuntimeError(reason))
        super().give_up(reason)

    # --- the end

    def close(self) -> None:
        """Stop listening."""
        if self.closed:
            return
        done = threading.Event()

        def end() -> None:
            self.closed = True
            for place in self.places:
                with contextlib.suppress(OSError):  # wakes a thread that waits for answers
                    place.engine.channel.shutdown(socket.SHUT_RDWR)
                self.ignore(place)
            self.asked.clear()
            self.sources.fail(PipelineClosed("the pipeline was closed"))
            done.set()

        if self.decide(end):
            pass
        elif self.on_its_thread:
            end()
        else:
            self.request(end)
            done.wait(1.0)
        self.closed = True
        stopped = threading.Event()
        if self._loop.is_current():
            self._stop_watching(stopped)
        else:
            self._loop.call(self._stop_watching, stopped)
            stopped.wait(1.0)
        if self._receiver is not None:
            self._receiver.close()
            self._receiver.join(1.0)

    def _stop_watching(self, stopped: threading.Event) -> None:
        if not self._ends.closed:
            self._loop.remove_reader(self._ends.fileno())
            self._ends.close()
        stopped.set()
