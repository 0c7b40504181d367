"""The trainer's side of actors: requests, answers, and what happens when an actor is slow. Runs on the loop's thread.

Which actor makes an iteration is a hint and never state. The loop's thread runs once per request and once per answer; an answer above 128
KB takes more turns. It also runs when the oldest request is old enough to be sent to a second actor.
"""

from __future__ import annotations

import hashlib
import math
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import Any

import numpy as np
from asyncdali_workers.shared.system import Descriptors

from ..batch import Batch
from ..device.buffers import BufferPool
from ..engines.child.spans import hand_on
from ..engines.cut import Cut, make_cut, narrow_cut, segments_behind
from ..engines.wire.encoding import Frame, PayloadPacker
from ..engines.wire.handshake import Description, description, difference
from ..engines.wire.reach import unchecked
from ..errors import operator_error
from ..graph.plan import Plan
from ..pipeline.core import Core
from ..runtime.order.executor import Executor
from ..runtime.order.placement import OnLoop
from ..runtime.work.segments import BuiltSegment
from ..sources.group import Group
from ..sources.ports import Port
from . import messages
from .connections import Connections
from .link import FrameError, Link
from .messages import WrongMessage
from .patience import SHORTEST, Patience
from .places import ActorPlace, ActorRequest

WINDOW = 2
"""Iterations requested from one actor at a time: the actor plans the second while its threads work on the first."""
ANSWERS = 1.0
"""Seconds that :meth:`RemoteLoader.statistics` waits for the actors' own counters."""
COUNTERS = ("allocated", "operators", "pixels", "planning", "planning_processor")
"""The counters of an actor that its trainers use."""

START = "Start engines: `asyncdali engine --listen HOST:PORT --token-file FILE program.py:train`"


@dataclass
class Actors:
    """The actors of one loader, and how they are used. See :func:`asyncdali.fleet.loader` for the meaning of the fields."""

    addresses: list[str]
    token: bytes
    rank: int = 0
    hedge_after: float | None = 3.0
    hedge_compare: bool = False
    reconnect_timeout: float = 60.0
    buffer_bytes: int = 1 << 30
    allow_unchecked: bool = False
    pool: RemotePool | None = field(default=None, repr=False)
    advice: str = START
    """The advice of the error for `reconnect_timeout`."""

    def start(self, core: Core) -> RemotePool:
        """The engines of a pipeline that is about to be built (``Core.elsewhere``)."""
        self.pool = RemotePool(self, core)
        return self.pool

    def add(self, address: str) -> None:
        """Use one more actor."""
        if address not in self.addresses:
            self.addresses.append(address)
        if self.pool is not None and self.pool.loader is not None:
            self.pool.loader.call(self.pool.loader.add, address)

    def remove(self, address: str) -> None:
        """Send no more requests to an actor, and disconnect when it has answered."""
        if address in self.addresses:
            self.addresses.remove(address)
        if self.pool is not None and self.pool.loader is not None:
            self.pool.loader.call(self.pool.loader.remove, address)


class RemotePool:
    """The actors of one pipeline (``runtime.engine_protocol.Engines``)."""

    pool: BufferPool | None = None
    reports = False

    def __init__(self, actors: Actors, core: Core):
        self.actors = actors
        self.options = core.options
        self.seed = int(core.options.seed)
        self.closed = False
        self.descriptors = Descriptors()
        self.description: Description = {}
        self._cut: Cut | None = None
        self._plan: Plan | None = None
        self.loader: RemoteLoader | None = None

    def cut(self, plan: Plan, fuse_device: bool, on_cuda: bool) -> None:
        if self.options.engine_cut is None:
            self.options.engine_cut = narrow_cut(plan)
        self._cut, self._plan = make_cut(plan, self.options.cut_names()), plan
        if not self._cut.before:
            raise RuntimeError(
                "the loader has engines on other machines, but no operator of this pipeline can run there: all of them need a GPU, or only "
                "pass on fed data. Leave out `engines`."
            )
        plan.segments = segments_behind(self._cut, plan.outputs, fuse_device, on_cuda)

    def puller(self, group: Group, ports: dict[str, Port], batch_size: int) -> None:
        """The training process calls all sources."""

    def place(self, executor: Executor, segments: list[BuiltSegment]) -> OnLoop:
        self._placement = OnLoop(executor)
        return self._placement

    def attach(self, executor: Executor, segment: BuiltSegment) -> None:
        assert self._cut is not None
        assert self._plan is not None
        self.description = description(self._plan, self.options, self.seed, segment.operators, self._cut.before)
        self._check_comparable()
        self.loader = RemoteLoader(self, self._cut, self._plan, executor, segment, self._placement)
        self.loader.wait_for_one()
        segment.remote, segment.instant = self.loader, False

    def _check_comparable(self) -> None:
        """Refuse a program of which the handshake cannot tell whether engines have the same."""
        lacking = unchecked(self.description["code"])
        if lacking and not self.actors.allow_unchecked:
            raise TypeError(
                "engines on other machines may have another program, and parts of this one cannot be compared with theirs: "
                f"{'; '.join(lacking[:5])}. Give the object a __reduce__ or __getstate__ that returns what decides its results, or make "
                "the value inside the function. loader(..., allow_unchecked=True) accepts engines without this comparison"
            )

    def statistics(self) -> list[dict[str, Any]]:
        return [] if self.loader is None else self.loader.statistics()

    def known(self) -> list[dict[str, Any]]:
        """The facts about each actor in this process."""
        return [] if self.loader is None else self.loader.known()

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        if self.descriptors.forked:
            return
        if self.loader is not None:
            self.loader.close()


class RemoteLoader(Connections):
    """Runs the segment before the cut on actors."""

    def __init__(self, pool: RemotePool, cut: Cut, plan: Plan, executor: Executor, segment: BuiltSegment, placement: OnLoop):
        actors = pool.actors
        super().__init__(
            cut, plan, executor, segment, placement, pool.descriptors, actors.addresses, actors.token, actors.rank, actors.reconnect_timeout
        )
        self._pool, self._actors = pool, actors
        self._patience = Patience(actors.hedge_after)
        timeout = pool.options.engine_timeout
        self._timeout = math.inf if timeout is None else float(timeout)
        self._largest = 0  # bytes of the largest answer so far
        self._timer: Any = None
        self._due = 0.0  # time at which `_timer` fires
        self._overdue = False  # whether an old request has found no second actor
        self._stateful = frozenset(built.planned.spec.name for built in segment.stateful)
        self._counting: tuple[set[ActorPlace], threading.Event] = set(), threading.Event()
        for place in self._places.values():
            self.call(self._connect, place)

    def _advice(self) -> str:
        return self._actors.advice

    # --- requests

    def _pack(self, asked: ActorRequest) -> None:
        packer, frame = PayloadPacker(), Frame()
        self.packed(asked, packer, frame)
        asked.body, asked.payloads, asked.keep = frame.joined(), packer.payloads, packer.keep

    def _withdraw(self, asked: ActorRequest) -> None:
        asked.places, asked.digest = [], None

    def _dispatch(self) -> None:
        if self.closed or self.broken is not None:
            return
        expected = 0
        for asked in self.asked.values():
            expected += self._largest
            if asked.answer is not None or asked.error is not None or asked.places:
                continue
            if expected > self._actors.buffer_bytes and expected > self._largest:
                break  # over the limit; the limit never blocks the first request
            place = self._room(asked, WINDOW)
            if place is None:
                break
            self._send(asked, place)
        self._arm()

    def _room(self, asked: ActorRequest, most: int) -> ActorPlace | None:
        most = 1 if asked.suspect else most
        free = [
            place for place in self._places.values()
            if place.ready and not place.leaving and len(place.outstanding) < most and place not in asked.places and not place.guarded
        ]  # fmt: skip
        if not free:
            return None
        free = [place for place in free if place not in asked.wrong] or (free if self._all_wrong(asked) else [])
        if not free:
            return None
        number, count = asked.run.record.number + self._actors.rank, len(free)
        return min(enumerate(free), key=lambda item: (len(item[1].outstanding), (item[0] - number) % count))[1]

    def _all_wrong(self, asked: ActorRequest) -> bool:
        """Whether no other actor is left than those that have answered this request wrongly."""
        return all(place in asked.wrong for place in self._places.values() if place.ready and not place.leaving)

    def _send(self, asked: ActorRequest, place: ActorPlace) -> None:
        assert place.link is not None
        asked.places.append(place)
        place.outstanding[asked.run.record.index, asked.generation] = asked, monotonic()
        place.asked += 1
        try:
            place.link.send(asked.header, asked.body, asked.payloads, asked.keep)
        except FrameError as error:
            asked.error = operator_error(self.segment.operators[0].planned, error, asked.run.record.number)
            self._loop.loop.call_soon(self.executor.guarded, self._deliver)

    # --- slow actors

    def _arm(self) -> None:
        """Wake up when the oldest request is old. A timer that fires before a request of this moment is old serves this request, too."""
        time, patience, timeout = monotonic(), self._patience.seconds, self._timeout
        shortest = min(patience, timeout)
        if self.closed or shortest == math.inf or (self._timer is not None and self._due <= time + shortest):
            return
        waits = [sent + patience for asked, sent in self._unanswered() if len(asked.places) == 1]
        waits += [max(place.outstanding_since(), place.heard) + timeout for place in self._places.values() if place.outstanding]
        if not waits:
            return
        due = min((due for due in waits if time < due < math.inf), default=time + 1.0)
        if self._timer is not None:
            if due > self._due - SHORTEST:
                return
            self._timer.cancel()  # the timer was set before the median time was known
        self._due = due
        self._timer = self._loop.loop.call_later(due - time + 0.001, self.executor.guarded, self._look)

    def _unanswered(self) -> Iterable[tuple[ActorRequest, float]]:
        for place in self._places.values():
            for (_, generation), (asked, sent) in place.outstanding.items():
                if asked.generation == generation and asked.answer is None and asked.error is None:
                    yield asked, sent

    def _look(self) -> None:
        """Send old requests to a second actor as well, and drop actors that do not answer at all."""
        self._timer = None
        if self.closed or self.broken is not None:
            return
        time, timeout = monotonic(), self._timeout
        for place in list(self._places.values()):
            if place.outstanding and time - max(place.outstanding_since(), place.heard) > timeout:
                self._drop(place, f"did not answer for {timeout:g} s (engine_timeout)")
        self._hedge(time)
        self._arm()

    def _hedge(self, time: float) -> None:
        self._overdue = False
        patience = self._patience.seconds
        old = [(asked, sent) for asked, sent in self._unanswered() if len(asked.places) == 1 and time - sent > patience]
        for asked, _ in sorted(old, key=lambda item: item[0].run.record.index):
            slow = asked.places[0]
            place = self._room(asked, WINDOW + 1)
            if place is None:
                self._overdue = True
                return
            slow.hedged += 1
            self._send(asked, place)

    # --- answers

    def _received(self, place: ActorPlace, link: Link, header: dict[str, Any], body: memoryview, payloads: list[np.ndarray]) -> None:
        """Read a message whole, and then act on it. A wrong message is the failure of the actor, whose requests others get."""
        if place.link is not link:
            return
        place.heard = monotonic()
        try:
            act = self._read(place, header, body, payloads)
        except Exception as error:
            kind = "" if isinstance(error, WrongMessage) else f"{type(error).__name__}: "
            self._drop(place, f"its answer cannot be used: {kind}{error}", wrong=True)
            return
        act()

    def _read(self, place: ActorPlace, header: dict[str, Any], body: memoryview, payloads: list[np.ndarray]) -> Callable[[], None]:
        """The consequence of a message, as a function. Nothing changes before all of the message is read."""
        if "a" in header:
            key = messages.key(header["a"])
            asked, _ = self._outstanding(place, key)
            wanted = asked.generation == key[1] and place in asked.places
            first = wanted and asked.answer is None and asked.error is None
            compared = wanted and not first and self._actors.hedge_compare and asked.digest is not None
            record = asked.run.record
            expected = messages.ExpectedAnswer(record.batch_size, record.whole, len(self.cut.crossing), self._stateful)
            answer = messages.answer(header, body, payloads, expected, first or compared)
            size = len(body) + sum(map(len, payloads))
            return partial(self._answer, place, key, answer, size)
        if "planned" in header:
            key = messages.key(header["planned"])
            asked, _ = self._outstanding(place, key)
            record = asked.run.record
            produced = messages.produced(header, self._stateful, max(record.whole, record.batch_size))
            return partial(self.planned, asked if asked.generation == key[1] else None, produced)
        if "ready" in header:
            pid = messages.number(header["ready"], "the process id", 1, 1 << 31)
            if not isinstance(header.get("is"), dict):
                raise WrongMessage("an engine describes itself")
            return partial(self._ready, place, pid, header["is"])
        if "statistics" in header:
            counters = messages.counters(header["statistics"], COUNTERS)
            return partial(self._told_counters, place, counters)
        raise WrongMessage(f"a message of an unknown kind: {', '.join(map(repr, list(header)[:5]))}")

    def _outstanding(self, place: ActorPlace, key: tuple[int, int]) -> tuple[ActorRequest, float]:
        found = place.outstanding.get(key)
        if found is None:
            raise WrongMessage(f"request {key[0]} (generation {key[1]}) was not sent to it, or is answered")
        return found

    def _told_counters(self, place: ActorPlace, counters: dict[str, object]) -> None:
        place.counters = counters
        self._counted(place)

    def _ready(self, place: ActorPlace, pid: int, description: dict[str, Any]) -> None:
        found = difference(self._pool.description, description)
        if found:
            reason = f"its results may differ from those of this process: {found}. Start all with the same program, options and packages"
            self._drop(place, reason, refused=True)
            return
        place.ready, place.pid, place.reason = True, pid, "connected"
        if not place.wrong:
            place.attempts = 0
        self._tell()
        self._dispatch()

    def _answer(self, place: ActorPlace, key: tuple[int, int], answer: messages.Answer, size: int) -> None:
        index, generation = key
        asked, sent = place.outstanding.pop((index, generation))
        place.answered += 1
        place.busy += answer.took
        place.wrong = place.attempts = 0
        recorder = self.recorder()
        if recorder is not None and answer.spans:
            hand_on(answer.spans, recorder.span, list(self._places).index(place.address))
        if asked.generation == generation and place in asked.places:
            asked.places.remove(place)
            if asked.answer is None and asked.error is None:
                self._first(place, asked, sent, answer, size)
            else:
                place.late += 1
                if self._actors.hedge_compare and asked.digest is not None and answer.error is None:
                    self._compare(place, asked, answer.batches)
        self._left(place)
        self._deliver()
        self._dispatch()
        if self._overdue:
            self._hedge(place.heard)

    def _first(self, place: ActorPlace, asked: ActorRequest, sent: float, answer: messages.Answer, size: int) -> None:
        self._patience.learn(place.heard - sent)
        if answer.error is not None:
            asked.error = answer.error
        else:
            self._largest = max(self._largest, size)
            if self._actors.hedge_compare and asked.places:
                asked.digest = _digest(answer.batches)
        asked.answer, asked.engine_name = {"out": answer.batches, "produced": answer.produced}, f"engine {place.address}"
        asked.payloads, asked.keep = [], []

    def _compare(self, place: ActorPlace, asked: ActorRequest, batches: list[Batch]) -> None:
        if _digest(batches) != asked.digest:
            self.give_up(
                f"engine {place.address} made other data for iteration {asked.run.record.number} than the engine that answered first "
                "(hedge_compare). An operator is not deterministic, or the engines read other files"
            )

    # --- statistics

    def statistics(self) -> list[dict[str, Any]]:
        """The work of each actor for this loader, and the actor's counters of its work for all loaders.

        For an actor that does not answer within a second, only the part known in this process.
        """
        done = threading.Event()

        def ask() -> None:
            links = {place: place.link for place in self._places.values() if place.ready and place.link is not None}
            self._counting = set(links), done
            for link in links.values():
                link.send({"statistics": 1})
            self._counted(None)

        if not self.closed and not self._loop.is_current():
            self._loop.call(ask)
            done.wait(ANSWERS)
        return self.known()

    def known(self) -> list[dict[str, Any]]:
        """As :meth:`statistics`, without asking: an actor that does not answer delays no other actor."""
        return [
            {
                "engine": number, "pid": place.pid, "asked": place.asked, "answered": place.answered, "outstanding": len(place.outstanding),
                "restarts": place.restarts, "busy_seconds": place.busy / 1e9, "address": place.address, "late": place.late,
                "hedged": place.hedged, "bytes": place.bytes + (0 if place.link is None else place.link.got), "connected": place.ready,
                "near": place.near, **place.counters,
                "reason": place.reason,
            }
            for number, place in enumerate(list(self._places.values()))
        ]  # fmt: skip

    def _counted(self, place: ActorPlace | None) -> None:
        """An actor has sent its counters, or is lost. None: the actors were asked."""
        waiting, done = self._counting
        if place is not None:
            waiting.discard(place)
        if not waiting:
            done.set()

    # --- the end

    def close(self) -> None:
        """Close all connections."""
        if self.closed:
            return
        done = threading.Event()

        def end() -> None:
            self.closed = True
            if self._timer is not None:
                self._timer.cancel()
            self._stop_timers()
            for place in self._places.values():
                if place.link is not None:
                    place.link.close()
            self.asked.clear()
            done.set()

        if self._loop.is_current():
            end()
        else:
            self._loop.call(end)
            done.wait(1.0)
        self._closed = True


def _digest(batches: list[Batch]) -> bytes:
    found = hashlib.blake2b(digest_size=16)
    for batch in batches:
        found.update(repr((int(batch.dtype), batch.layout, batch.shapes.tolist())).encode())
        for k in range(len(batch)):
            found.update(np.ascontiguousarray(batch.sample(k)).view(np.uint8).reshape(-1).data)
    return found.digest()
