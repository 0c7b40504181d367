"""The trainer's side of actors: connections, requests, and what happens when an actor is slow or gone. Runs on the loop's thread.

Which actor makes an iteration is a hint and never state. The loop's thread is entered once per request, once per answer (more often for
answers above 128 KB), and once when the oldest request is old enough to be asked of a second actor. A lost connection is reported by the
kernel to the loop, which asks another actor at once. Connections are made on short-lived threads, because names must be looked up.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import socket
import statistics
import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

import numpy as np
from asyncdali_workers.shared.system import Descriptors

from ..batch import Batch
from ..device.buffers import BufferPool
from ..engines.cut import Cut, make_cut, narrow_cut, segments_behind
from ..engines.encoding import Frame, PayloadPacker, Payloads, unpack
from ..engines.failures import EngineError, unpacked
from ..engines.handshake import Description, description, difference
from ..engines.ordered import Asked, Ordered
from ..engines.spans import hand_on
from ..errors import operator_error
from ..graph.plan import Plan
from ..pipeline.core import Core
from ..runtime.executor import Executor
from ..runtime.segments import BuiltSegment, SegmentRun
from ..sources.group import Group
from ..sources.ports import Port
from . import near
from .addresses import Address
from .link import FrameError, Link
from .near import Borrower
from .proof import Unproven, prove

log = logging.getLogger("asyncdali")

WINDOW = 2
"""Iterations asked of one actor at a time: it plans the second while its threads work on the first."""
ATTEMPT = 10.0
"""Seconds for one attempt to connect."""
SLOWEST_RETRY = 5.0
LOSSES = 4
"""Number of actors that end with the same iteration before this iteration has failed: it may be the iteration that ends them."""
SUSPECT = 2
"""Number of actors that end with the same iteration before this iteration is made alone, so that no other one is suspected with it."""
ANSWERS = 1.0
"""Seconds that :meth:`RemoteLoader.statistics` waits for the actors' own counters."""
COUNTERS = ("allocated", "operators", "pixels", "planning", "planning_processor")
"""The counters of an actor that its trainers use."""
REMEMBERED = 64
"""Number of answer times whose median decides what is slow."""
UNKNOWN = 10.0
"""Seconds after which an iteration is asked of a second actor while few answer times are known."""
SHORTEST = 0.05
"""Seconds after which an iteration may be asked of a second actor at the earliest. Shorter delays are the scheduler's."""


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
    pool: RemotePool | None = field(default=None, repr=False)

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


class Request(Asked):
    """An iteration requested from actors."""

    __slots__ = ("digest", "keep", "lost", "payloads", "places")

    def __init__(self, run: SegmentRun, before: dict[str, Any]):
        super().__init__(run, before)
        self.payloads: list[list[memoryview]] = []
        self.keep: list[Any] = []
        self.places: list[Place] = []  # actors that work on it
        self.lost: list[str] = []  # reasons for which actors were lost while they worked on it
        self.digest: bytes | None = None

    @property
    def suspect(self) -> bool:
        """Whether it may be this iteration that ends actors."""
        return len(self.lost) >= SUSPECT


class Place:
    """One actor, as one loader knows it."""

    def __init__(self, address: str):
        self.address = address
        self.link: Link | None = None
        self.ready = self.leaving = False
        self.near = False  # whether it is on this machine, and lends its memory
        self.pid = 0
        self.reason = "no connection yet"
        self.attempts = 0  # since it was last ready
        self.refused = False  # the last attempt found a difference that time does not change
        self.heard = 0.0
        self.outstanding: dict[tuple[int, int], tuple[Request, float]] = {}
        self.counters: dict[str, Any] = {}  # its own, of all ranks, when they were last asked for
        self.asked = self.answered = self.late = self.hedged = self.busy = self.bytes = self.restarts = 0

    @property
    def guarded(self) -> bool:
        """Whether the actor makes an iteration that may end it."""
        return any(asked.suspect for asked, _ in self.outstanding.values())

    def outstanding_since(self) -> float:
        """When its oldest request was sent."""
        return next(iter(self.outstanding.values()))[1]


class RemotePool:
    """The actors of one pipeline (``runtime.engine_protocol.Engines``)."""

    pool: BufferPool | None = None

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
                "hand on what is fed. Leave out `engines`."
            )
        plan.segments = segments_behind(self._cut, plan.outputs, fuse_device, on_cuda)

    def puller(self, group: Group, ports: dict[str, Port], batch_size: int) -> None:
        """The training process calls all sources."""

    def attach(self, executor: Executor, segment: BuiltSegment) -> None:
        assert self._cut is not None
        assert self._plan is not None
        self.description = description(self._plan, self.options, self.seed, segment.operators)
        self.loader = RemoteLoader(self, self._cut, self._plan, executor, segment)
        self.loader.wait_for_one()
        segment.remote, segment.instant = self.loader, False

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


class RemoteLoader(Ordered[Request]):
    """Runs the segment before the cut on actors."""

    kind = Request

    def __init__(self, pool: RemotePool, cut: Cut, plan: Plan, executor: Executor, segment: BuiltSegment):
        super().__init__(cut, plan, executor, segment)
        self._pool, self._actors = pool, pool.actors
        self._places = {address: Place(address) for address in pool.actors.addresses}
        self._times: deque[float] = deque(maxlen=REMEMBERED)
        self._largest = 0  # bytes of the largest answer so far
        self._timer: Any = None
        self._due = 0.0  # when the timer fires
        self._overdue = False  # whether an old request has found no second actor
        # Held, except for a moment after news. No Condition: Ctrl-C in its Python code may leave its lock held, and the loop would hang.
        self._news = threading.Lock()
        self._news.acquire()
        self._started = False
        self._counting: tuple[set[Place], threading.Event] = set(), threading.Event()
        self._alone_since = monotonic()
        for place in self._places.values():
            self.call(self._connect, place)

    def call(self, function: Any, *args: Any) -> None:
        """Call a method on the loop's thread. Any thread may."""
        self._loop.call(self._executor.guarded, function, *args)

    # --- the set of actors

    def add(self, address: str) -> None:
        """Connect to an actor."""
        place = self._places.get(address)
        if place is not None and not place.leaving:
            return
        if place is not None:
            self._drop(place, "it is replaced")
        place = self._places[address] = Place(address)
        self._connect(place)

    def remove(self, address: str) -> None:
        """Disconnect from an actor when it has answered."""
        place = self._places.get(address)
        if place is not None:
            place.leaving = True
            self._left(place)

    def _left(self, place: Place) -> None:
        if place.leaving and not place.outstanding:
            self._drop(place, "it was removed")
            if self._places.get(place.address) is place:
                del self._places[place.address]
            self._check_alone()

    def wait_for_one(self) -> None:
        """Wait until every actor has answered or failed once, and one is ready. RuntimeError when none is in time, or one differs."""
        began, timeout = monotonic(), self._actors.reconnect_timeout
        while True:
            places = list(self._places.values())
            differing = next((place for place in places if place.refused), None)
            if differing is not None:
                raise RuntimeError(f"engine {differing.address} cannot be used: {differing.reason}")
            ready = [place for place in places if place.ready]
            tried = all(place.ready or place.attempts for place in places)
            if ready and tried:
                break
            if monotonic() - began >= (timeout if tried else max(timeout, ATTEMPT)):  # a stopped engine accepts, and says nothing
                if ready:
                    break
                raise RuntimeError(self._none_left())
            self._news.acquire(timeout=0.2)  # a signal interrupts the wait
        self._started = True

    def _tell(self) -> None:
        with contextlib.suppress(RuntimeError):  # no thread has taken the last event
            self._news.release()

    # --- connections

    def _connect(self, place: Place) -> None:
        if self._closed or place.leaving or self._places.get(place.address) is not place:
            return
        try:
            threading.Thread(target=self._attempt, args=(place,), name="asyncdali-connect", daemon=True).start()
        except RuntimeError as error:  # the system has no more threads
            self._failed(place, str(error), False)

    def _attempt(self, place: Place) -> None:
        """Connect and prove the token, on a thread of its own."""
        refused = False
        try:
            address = Address.parse(place.address)
            sock = socket.create_connection(address, ATTEMPT)
            try:
                where = prove(sock, self._actors.token, ATTEMPT)
                local = near.connect(where, ATTEMPT)
                if local is not None:
                    sock.close()
                    sock = local
                    prove(sock, self._actors.token, ATTEMPT)
            except BaseException:
                sock.close()
                raise
            self.call(self._connected, place, sock)
            return
        except Unproven as error:
            reason, refused = str(error), True
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        self.call(self._failed, place, reason, refused)

    def _connected(self, place: Place, sock: socket.socket) -> None:
        if self._closed or self._places.get(place.address) is not place:
            sock.close()
            return
        sock = socket.socket(fileno=self._pool.descriptors.add(sock.detach()))
        release = self._pool.descriptors.close
        link: Link

        def received(header: dict[str, Any], body: memoryview, payloads: list[np.ndarray]) -> None:
            self._executor.guarded(self._received, place, link, header, body, payloads)

        def lost(reason: str) -> None:
            self._executor.guarded(self._lost, place, link, reason)

        place.near = sock.family == socket.AF_UNIX
        borrower = Borrower() if place.near else None
        place.link = link = Link(sock, self._executor.allocate, received, lost, lambda sock: release(sock.detach()), borrower)
        link.send({"rank": self._actors.rank})

    def _failed(self, place: Place, reason: str, refused: bool) -> None:
        """An attempt to connect has failed: try again later."""
        if place.reason != reason:
            log.warning("engine %s: %s", place.address, reason)
        place.reason, place.refused = reason, refused
        delay = min(0.1 * 2 ** min(place.attempts, 8), SLOWEST_RETRY)
        place.attempts += 1
        if not self._closed:
            self._loop.loop.call_later(delay, self._executor.guarded, self._connect, place)
        self._check_alone()
        self._tell()

    def _drop(self, place: Place, reason: str, refused: bool = False) -> None:
        """End a connection. Its iterations are asked of others."""
        if place.link is not None:
            place.link.close()
            self._lost(place, place.link, reason, refused)

    def _lost(self, place: Place, link: Link, reason: str, refused: bool = False) -> None:
        """A connection has ended."""
        if place.link is not link:
            return
        place.link = None
        self._counted(place)
        was_ready, place.ready = place.ready, False
        if was_ready:
            self._alone_since = monotonic()
        place.bytes += link.got
        outstanding, place.outstanding = place.outstanding, {}
        if self._closed:
            return
        for (_, generation), (asked, _) in outstanding.items():
            if asked.generation != generation or place not in asked.places:
                continue
            asked.places.remove(place)
            if place.leaving:
                continue
            asked.lost.append(f"{place.address} ({reason})")
            if len(asked.lost) >= LOSSES and asked.answer is None and asked.error is None and not asked.places:
                asked.error = self._death(asked)
        place.restarts += 1
        if was_ready:
            place.attempts = 0
        if not place.leaving:
            self._failed(place, reason, refused)
        elif self._places.get(place.address) is place:
            del self._places[place.address]
        self._deliver()
        self._dispatch()

    def _death(self, asked: Request) -> BaseException:
        text = f"{len(asked.lost)} engines ended while they made this iteration: {', '.join(asked.lost)}. A sample may end them"
        return operator_error(self._segment.operators[0].planned, EngineError(text), asked.run.record.number)

    def _check_alone(self) -> None:
        """Give up when no actor has been connected for `reconnect_timeout` seconds."""
        if any(place.ready for place in self._places.values()) or not self._started or self._closed or self._broken is not None:
            self._alone_since = monotonic()
            return
        left = self._alone_since + self._actors.reconnect_timeout - monotonic()
        if left <= 0:
            self._give_up(self._none_left())
        else:
            self._loop.loop.call_later(left, self._executor.guarded, self._check_alone)

    def _none_left(self) -> str:
        known = "; ".join(f"{place.address}: {place.reason}" for place in self._places.values()) or "all were removed"
        return (
            f"no engine can be reached for {self._actors.reconnect_timeout:g} s (reconnect_timeout). {known}. Start engines: `asyncdali "
            "engine --listen HOST:PORT --token-file FILE program.py:train`"
        )

    # --- requests

    def _pack(self, asked: Request) -> None:
        packer, frame = PayloadPacker(), Frame()
        self._packed(asked, packer, frame)
        asked.body, asked.payloads, asked.keep = frame.joined(), packer.payloads, packer.keep

    def _withdraw(self, asked: Request) -> None:
        asked.places, asked.digest = [], None

    def _dispatch(self) -> None:
        if self._closed or self._broken is not None:
            return
        expected = 0
        for asked in self._asked.values():
            expected += self._largest
            if asked.answer is not None or asked.error is not None or asked.places:
                continue
            if expected > self._actors.buffer_bytes and expected > self._largest:
                break  # the first iteration is always asked for
            place = self._room(asked, WINDOW)
            if place is None:
                break
            self._send(asked, place)
        self._arm()

    def _room(self, asked: Request, most: int) -> Place | None:
        most = 1 if asked.suspect else most
        free = [
            place for place in self._places.values()
            if place.ready and not place.leaving and len(place.outstanding) < most and place not in asked.places and not place.guarded
        ]  # fmt: skip
        if not free:
            return None
        number, count = asked.run.record.number + self._actors.rank, len(free)
        return min(enumerate(free), key=lambda item: (len(item[1].outstanding), (item[0] - number) % count))[1]

    def _send(self, asked: Request, place: Place) -> None:
        assert place.link is not None
        asked.places.append(place)
        place.outstanding[asked.run.record.index, asked.generation] = asked, monotonic()
        place.asked += 1
        try:
            place.link.send(asked.header, asked.body, asked.payloads, asked.keep)
        except FrameError as error:
            asked.error = operator_error(self._segment.operators[0].planned, error, asked.run.record.number)
            self._loop.loop.call_soon(self._executor.guarded, self._deliver)

    # --- slow actors

    def _patience(self) -> float:
        """Seconds after which a request is asked of a second actor."""
        assert self._actors.hedge_after is not None
        return UNKNOWN if len(self._times) < 4 else max(SHORTEST, self._actors.hedge_after * statistics.median(self._times))

    def _arm(self) -> None:
        """Wake up when the oldest request is old."""
        if self._closed:
            return
        waits = []
        if self._actors.hedge_after is not None:
            patience = self._patience()
            waits += [sent + patience for asked, sent in self._unanswered() if len(asked.places) == 1]
        timeout = self._pool.options.engine_timeout
        if timeout is not None:
            waits += [max(place.outstanding_since(), place.heard) + timeout for place in self._places.values() if place.outstanding]
        if waits:
            time = monotonic()
            due = min((due for due in waits if due > time), default=time + 1.0)
            if self._timer is not None:
                if due > self._due - SHORTEST:
                    return
                self._timer.cancel()  # what is slow was not known yet
            self._due = due
            self._timer = self._loop.loop.call_later(due - time + 0.001, self._executor.guarded, self._look)

    def _unanswered(self) -> Iterable[tuple[Request, float]]:
        for place in self._places.values():
            for (_, generation), (asked, sent) in place.outstanding.items():
                if asked.generation == generation and asked.answer is None and asked.error is None:
                    yield asked, sent

    def _look(self) -> None:
        """Ask old requests of a second actor, and drop actors that do not answer at all."""
        self._timer = None
        if self._closed or self._broken is not None:
            return
        time = monotonic()
        timeout = self._pool.options.engine_timeout
        if timeout is not None:
            for place in list(self._places.values()):
                if place.outstanding and time - max(place.outstanding_since(), place.heard) > timeout:
                    self._drop(place, f"did not answer for {timeout:g} s (engine_timeout)")
        self._hedge(time)
        self._arm()

    def _hedge(self, time: float) -> None:
        if self._actors.hedge_after is None:
            return
        self._overdue = False
        patience = self._patience()
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

    def _received(self, place: Place, link: Link, header: dict[str, Any], body: memoryview, payloads: list[np.ndarray]) -> None:
        if place.link is not link:
            return
        place.heard = monotonic()
        try:
            if "a" in header:
                self._answer(place, header, body, payloads)
            elif "planned" in header:
                index, generation = header["planned"]
                asked, _ = place.outstanding.get((index, generation), (None, 0.0))
                if asked is not None and asked.generation == generation:
                    self._planned(asked, dict(header["produced"]))
            elif "ready" in header:
                self._ready(place, header)
            elif "statistics" in header:
                place.counters = {name: value for name, value in dict(header["statistics"]).items() if name in COUNTERS}
                self._counted(place)
        except (ValueError, KeyError, TypeError, IndexError, AttributeError, MemoryError) as error:
            self._drop(place, f"its answer cannot be used: {type(error).__name__}: {error}")

    def _ready(self, place: Place, header: dict[str, Any]) -> None:
        found = difference(self._pool.description, header["is"])
        if found:
            reason = f"its results may differ from those of this process: {found}. Start all with the same program, options and packages"
            self._drop(place, reason, refused=True)
            return
        place.ready, place.pid, place.attempts, place.reason = True, int(header["ready"]), 0, "connected"
        self._tell()
        self._dispatch()

    def _answer(self, place: Place, header: dict[str, Any], body: memoryview, payloads: list[np.ndarray]) -> None:
        index, generation = header["a"]
        asked, sent = place.outstanding.pop((index, generation))
        place.answered += 1
        place.busy += int(header["took"])
        recorder = self._recorder()
        if recorder is not None and "spans" in header:
            hand_on(header["spans"], recorder.span, list(self._places).index(place.address))
        if asked.generation == generation and place in asked.places:
            asked.places.remove(place)
            if asked.answer is None and asked.error is None:
                self._first(place, asked, sent, header, body, payloads)
            else:
                place.late += 1
                if self._actors.hedge_compare and asked.digest is not None and "out" in header:
                    self._compare(place, asked, _batches(header, body, payloads))
        self._left(place)
        self._deliver()
        self._dispatch()
        if self._overdue:
            self._hedge(place.heard)

    def _first(
        self, place: Place, asked: Request, sent: float, header: dict[str, Any], body: memoryview, payloads: list[np.ndarray]
    ) -> None:
        self._times.append(place.heard - sent)
        if "error" in header:
            asked.error = unpacked(header["error"])
        else:
            header["out"] = _batches(header, body, payloads)
            self._largest = max(self._largest, len(body) + sum(map(len, payloads)))
            if self._actors.hedge_compare and asked.places:
                asked.digest = _digest(header["out"])
        asked.answer = header
        asked.payloads, asked.keep = [], []

    def _compare(self, place: Place, asked: Request, batches: list[Batch]) -> None:
        if _digest(batches) != asked.digest:
            self._give_up(
                f"engine {place.address} made other data for iteration {asked.run.record.number} than the engine that answered first "
                "(hedge_compare). An operator is not deterministic, or the engines read other files"
            )

    # --- statistics

    def statistics(self) -> list[dict[str, Any]]:
        """The work of each actor for this loader, and what it has done for all: its planning and its pixels.

        For an actor that does not answer within a second, only the part known in this process.
        """
        done = threading.Event()

        def ask() -> None:
            links = {place: place.link for place in self._places.values() if place.ready and place.link is not None}
            self._counting = set(links), done
            for link in links.values():
                link.send({"statistics": 1})
            self._counted(None)

        if not self._closed and not self._loop.is_current():
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

    def _counted(self, place: Place | None) -> None:
        """An actor has sent its counters, or is lost. None: the actors were asked."""
        waiting, done = self._counting
        if place is not None:
            waiting.discard(place)
        if not waiting:
            done.set()

    # --- the end

    def close(self) -> None:
        """Close all connections."""
        if self._closed:
            return
        done = threading.Event()

        def end() -> None:
            self._closed = True
            if self._timer is not None:
                self._timer.cancel()
            for place in self._places.values():
                if place.link is not None:
                    place.link.close()
            self._asked.clear()
            done.set()

        if self._loop.is_current():
            end()
        else:
            self._loop.call(end)
            done.wait(1.0)
        self._closed = True


def _batches(header: dict[str, Any], body: memoryview, payloads: list[np.ndarray]) -> list[Batch]:
    places = Payloads(payloads)
    return [unpack(entry, body, places, None) for entry in header["out"]]


def _digest(batches: list[Batch]) -> bytes:
    found = hashlib.blake2b(digest_size=16)
    for batch in batches:
        found.update(repr((int(batch.dtype), batch.layout, batch.shapes.tolist())).encode())
        for k in range(len(batch)):
            found.update(np.ascontiguousarray(batch.sample(k)).view(np.uint8).reshape(-1).data)
    return found.digest()
