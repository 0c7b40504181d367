"""Requests, answers, and the order of iterations. One thread of the training process decides: the loop's, or beside a GPU the receiver's.

The threads that call the pipeline never decide. An exception of a signal's handler can come between any two of their steps.

A request for an iteration contains the positions before it. The least busy engine gets the request; this choice is only a hint. Answers are
delivered in order. When an engine ends, its iterations are requested again, from the same positions. An iteration at which two engines
ended has failed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from ...errors import PipelineClosed
from ...graph.plan import Plan
from ...runtime.order.executor import Executor
from ...runtime.order.loop import LoopThread
from ...runtime.order.placement import BesideEngines, OnLoop, Receiving
from ...runtime.work.segments import BuiltSegment
from ..cut import Cut
from ..wire import channel as channels
from .answers import Answers
from .faults import Faults
from .ordered import Ordered
from .places import WINDOW, WINDOW_OF_GPU, EnginePlace, Request
from .sending import Sender
from .source_requests import SourceRequests

if TYPE_CHECKING:
    from ...device.buffers import BufferPool
    from ..wire.blocks import OwnBlocks
    from .engine_process import EngineProcess


class StartedEngines(Protocol):
    """The part of a pool of engines that a loader uses."""

    engines: list[EngineProcess]
    timeout: float | None
    pool: BufferPool | None
    own: OwnBlocks

    def launch(self, number: int) -> EngineProcess:
        """Start an engine."""

    def refusal(self, engine: EngineProcess, header: dict[str, Any]) -> str:
        """Why an engine that is ready cannot be used; empty: it can."""

    def progressed(self, engine: EngineProcess, process: int) -> None:
        """A process of an engine was born."""


class Loader(Ordered[Request]):
    """Runs the segment before the cut in engines.

    Its parts: :class:`Sender` (requests), :class:`Answers` (messages of engines), :class:`Faults` (engines that end or hang),
    :class:`SourceRequests` (calls of sources).
    """

    kind = Request

    def __init__(
        self, pool: StartedEngines, cut: Cut, plan: Plan, executor: Executor, segment: BuiltSegment, placement: OnLoop | BesideEngines
    ):
        super().__init__(cut, plan, executor, segment, placement)
        self._caller: LoopThread | Receiving = placement.thread
        self.pool = pool
        self.places = [EnginePlace(engine) for engine in pool.engines]
        self.window = WINDOW if executor.gpu is None else WINDOW_OF_GPU
        """Most iterations in flight per engine."""
        self.sources = SourceRequests(self, [planned.spec.name for planned in cut.before if cut.called(planned)])
        self._fed += tuple(self.sources.names)
        self.sender, self.answers, self.faults = Sender(self), Answers(self), Faults(self)
        self._caller.call(self._listen_all)

    # --- for the parts of the loader

    def request(self, function: Callable[..., None], *args: object) -> None:
        """Call a part of the loader on the thread that receives. May be called from any thread."""
        self._caller.call(self.placement.receive, function, *args)

    def request_later(self, seconds: float, function: Callable[..., None]) -> None:
        """As :meth:`request`, in some seconds."""
        self._caller.call_later(seconds, self.placement.receive, function)

    @property
    def on_its_thread(self) -> bool:
        """Whether the caller is on the thread that receives."""
        return self._caller.is_current()

    def go_forward(self) -> None:
        """Deliver what has arrived, and send what is not sent."""
        self._deliver()
        self._dispatch()

    # --- requests

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

    # --- answers

    def _listen_all(self) -> None:
        if not self.closed:
            for place in self.places:
                self.await_messages(place)

    def await_messages(self, place: EnginePlace) -> None:
        """From now on messages of an engine are received."""
        self._caller.add_reader(place.engine.channel.fileno(), self.placement.receive, self._readable, place, place.engine)

        self._watch(place, place.engine)

    def watch(self, place: EnginePlace, engine: EngineProcess, descriptors: Sequence[int]) -> None:
        """From now on the end of an engine's process is noticed. `descriptors` has the process's descriptor, if there is one."""
        engine.watched_by(descriptors)
        self._watch(place, engine)

    def _watch(self, place: EnginePlace, engine: EngineProcess) -> None:
        if engine.pidfd >= 0:
            self._caller.add_reader(engine.pidfd, self.placement.receive, self._ended, place, engine)

    def ignore(self, place: EnginePlace) -> None:
        """Undo :meth:`await_messages` and :meth:`watch`."""
        for descriptor in (place.engine.channel.fileno(), place.engine.pidfd):
            if descriptor >= 0:
                self._caller.remove_reader(descriptor)

    def _ended(self, place: EnginePlace, engine: EngineProcess) -> None:
        """The process of an engine has ended. Its socket may stay open in a process that the engine has forked."""
        while not (engine.ended or self.closed):
            try:
                data, descriptors = channels.receive_now(engine.channel)
            except BlockingIOError:
                data, descriptors = b"", []
            if data:
                self.answers.receive(place, engine, data, descriptors)
            else:
                self.faults.lost(place, engine)

    def _readable(self, place: EnginePlace, engine: EngineProcess) -> None:
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
                self.ignore(place)
            self.asked.clear()
            self.sources.fail(PipelineClosed("the pipeline was closed"))
            done.set()

        if self.on_its_thread:
            end()
        else:
            self.request(end)
            done.wait(1.0)
        self.closed = True
