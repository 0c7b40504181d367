"""The actors of one loader: connections, and what happens when one is lost. Runs on the loop's thread.

The kernel reports a lost connection to the loop. The lost actor's iterations are then requested from other actors. Connections are made on
short-lived threads, because a look-up of a host name blocks.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import weakref
from collections.abc import Iterable
from time import monotonic
from typing import Any

import numpy as np
from asyncdali_workers.shared.system import Descriptors

from ..engines.cut import Cut
from ..engines.parent.ordered import Ordered
from ..engines.wire.failures import EngineError
from ..errors import operator_error
from ..graph.plan import Plan
from ..runtime.order.executor import Executor
from ..runtime.order.placement import OnLoop
from ..runtime.work.segments import BuiltSegment
from . import near
from .addresses import Address
from .link import Link
from .near import Borrower
from .places import HINT, ActorPlace, ActorRequest
from .proof import Unproven, prove

log = logging.getLogger("asyncdali")

ATTEMPT = 10.0
"""Seconds for one attempt to connect."""
SLOWEST_RETRY = 5.0
LOSSES = 4
"""An iteration fails when this number of actors ended while they made it, because the iteration may be the reason."""


class Connections(Ordered[ActorRequest]):
    """The part of a remote loader that connects to actors. Subclasses send requests and receive answers.

    `descriptors` are those of the pipeline. See :func:`asyncdali.fleet.loader` for the meaning of the other arguments.
    """

    kind = ActorRequest

    def __init__(
        self, cut: Cut, plan: Plan, executor: Executor, segment: BuiltSegment, placement: OnLoop, descriptors: Descriptors,
        addresses: Iterable[str], token: bytes, rank: int, reconnect_timeout: float,
    ):  # fmt: skip
        super().__init__(cut, plan, executor, segment, placement)
        self._descriptors, self._token, self._rank, self._reconnect_timeout = descriptors, token, rank, reconnect_timeout
        self._places = {address: ActorPlace(address) for address in addresses}
        # A locked lock as an event: `release` reports news, `acquire` waits for news. A Condition is Python code, in which Ctrl-C may leave
        # the inner lock held; the loop would then hang.
        self._news = threading.Lock()
        self._news.acquire()
        self._started = False
        self._alone_since = monotonic()
        self._timers: dict[ActorPlace | None, Any] = {}
        """The next attempt to connect to each lost actor. Under None: the end of `reconnect_timeout`."""

    # --- for subclasses

    def _received(self, place: ActorPlace, link: Link, header: dict[str, object], body: memoryview, payloads: list[np.ndarray]) -> None:
        """A frame has arrived."""
        raise NotImplementedError

    def _counted(self, place: ActorPlace | None) -> None:
        """An actor has sent its counters, or is lost. None: the actors were asked."""
        raise NotImplementedError

    def _advice(self) -> str:
        """The advice of the error for `reconnect_timeout`."""
        raise NotImplementedError

    def call(self, function: object, *args: object) -> None:
        """Call a method on the loop's thread. Any thread may."""
        self._loop.call(self.executor.guarded, function, *args)

    # --- the set of actors

    def add(self, address: str) -> None:
        """Connect to an actor."""
        place = self._places.get(address)
        if place is not None and not place.leaving:
            return
        if place is not None:
            self._drop(place, "it is replaced")
        place = self._places[address] = ActorPlace(address)
        self._connect(place)

    def remove(self, address: str) -> None:
        """Disconnect from an actor when it has answered."""
        place = self._places.get(address)
        if place is not None:
            place.leaving = True
            self._left(place)

    def _left(self, place: ActorPlace) -> None:
        if place.leaving and not place.outstanding:
            self._drop(place, "it was removed")
            if self._places.get(place.address) is place:
                del self._places[place.address]
            self._check_alone()

    def wait_for_one(self) -> None:
        """Wait until every actor has answered or failed once, and one is ready. RuntimeError when none is in time, or one differs."""
        began, timeout = monotonic(), self._reconnect_timeout
        while True:
            places = list(self._places.values())
            differing = next((place for place in places if place.refused), None)
            if differing is not None:
                raise RuntimeError(f"engine {differing.address} cannot be used: {differing.reason}")
            ready = [place for place in places if place.ready]
            tried = all(place.ready or place.attempts for place in places)
            if ready and tried:
                break
            if monotonic() - began >= (timeout if tried else max(timeout, ATTEMPT)):  # a stopped engine accepts, but never answers
                if ready:
                    break
                raise RuntimeError(self._none_left())
            self._news.acquire(timeout=0.2)  # a signal interrupts the wait
        self._started = True

    def _tell(self) -> None:
        with contextlib.suppress(RuntimeError):  # no thread has taken the last event
            self._news.release()

    # --- connections

    def _connect(self, place: ActorPlace) -> None:
        self._timers.pop(place, None)
        if self.closed or place.leaving or self._places.get(place.address) is not place:
            return
        try:
            given = weakref.ref(self), place, self._token
            threading.Thread(target=_attempt, args=given, name="asyncdali-connect", daemon=True).start()
        except RuntimeError as error:  # the system has no more threads
            self._failed(place, str(error), False)

    def _connected(self, place: ActorPlace, sock: socket.socket) -> None:
        if self.closed or self._places.get(place.address) is not place:
            sock.close()
            return
        sock = socket.socket(fileno=self._descriptors.add(sock.detach()))
        release = self._descriptors.close
        link: Link

        def received(header: dict[str, object], body: memoryview, payloads: list[np.ndarray]) -> None:
            self.executor.guarded(self._received, place, link, header, body, payloads)

        def lost(reason: str) -> None:
            self.executor.guarded(self._lost, place, link, reason)

        place.near = sock.family == socket.AF_UNIX
        borrower = Borrower() if place.near else None
        place.link = link = Link(sock, self.executor.allocate, received, lost, lambda sock: release(sock.detach()), borrower)
        link.send({"rank": self._rank})

    def _failed(self, place: ActorPlace, reason: str, refused: bool) -> None:
        """An attempt to connect has failed: try again later."""
        if place.reason != reason:
            log.warning("engine %s: %s", place.address, reason)
        place.reason, place.refused = reason, refused
        delay = min(0.1 * 2 ** min(place.attempts, 8), SLOWEST_RETRY)
        place.attempts += 1
        if not self.closed:
            self._after(delay, place, self._connect, place)
        self._check_alone()
        self._tell()

    def _after(self, delay: float, key: ActorPlace | None, function: Any, *args: Any) -> None:
        """Call a method in `delay` seconds. Replaces the timer of `key`."""
        earlier = self._timers.pop(key, None)
        if earlier is not None:
            earlier.cancel()
        self._timers[key] = self._loop.loop.call_later(delay, self.executor.guarded, function, *args)

    def _stop_timers(self) -> None:
        """Stop all timers. The event loop would otherwise keep a closed loader, and the trainer in its fleet, for `reconnect_timeout`."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _drop(self, place: ActorPlace, reason: str, refused: bool = False, wrong: bool = False) -> None:
        """End a connection. Its iterations are requested from other actors. `wrong`: the actor has sent a wrong message."""
        if place.link is not None:
            place.link.close()
            self._lost(place, place.link, reason, refused, wrong)

    def _lost(self, place: ActorPlace, link: Link, reason: str, refused: bool = False, wrong: bool = False) -> None:
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
        if self.closed:
            return
        for (_, generation), (asked, _) in outstanding.items():
            if asked.generation != generation or place not in asked.places:
                continue
            asked.places.remove(place)
            if place.leaving:
                continue
            asked.lost.append(f"{place.address} ({reason})")
            if wrong:
                asked.wrong.add(place)
            if len(asked.lost) >= LOSSES and asked.answer is None and asked.error is None and not asked.places:
                asked.error = self._death(asked)
        place.restarts += 1
        if wrong:
            place.attempts = place.wrong
            place.wrong += 1
        elif was_ready:
            place.attempts = 0
        if not place.leaving:
            self._failed(place, reason, refused)
        elif self._places.get(place.address) is place:
            del self._places[place.address]
        self._deliver()
        self._dispatch()

    def _death(self, asked: ActorRequest) -> BaseException:
        failed = ", ".join(asked.lost)
        did = "ended or answered wrongly" if asked.wrong else "ended"
        text = f"{len(asked.lost)} engines {did} while they made this iteration: {failed}. A sample may end them"
        return operator_error(self.segment.operators[0].planned, EngineError(text), asked.run.record.number)

    def _check_alone(self) -> None:
        """Give up when no actor has been connected for `reconnect_timeout` seconds."""
        if any(place.ready for place in self._places.values()) or not self._started or self.closed or self.broken is not None:
            self._alone_since = monotonic()
            return
        left = self._alone_since + self._reconnect_timeout - monotonic()
        if left <= 0:
            self.give_up(self._none_left())
        else:
            self._after(left, None, self._check_alone)

    def _none_left(self) -> str:
        known = "; ".join(f"{place.address}: {place.reason}" for place in self._places.values()) or "all were removed"
        return f"no engine can be reached for {self._reconnect_timeout:g} s (reconnect_timeout). {known}. {self._advice()}"


def _attempt(loader: weakref.ref[Connections], place: ActorPlace, token: bytes) -> None:
    """Connect to an actor, on a separate thread.

    A host that is silent takes :data:`ATTEMPT` seconds. A loader that is dropped meanwhile must not stay in its fleet for this time, so
    this thread has no strong reference.
    """
    sock, reason, refused = None, "", False
    try:
        sock = _proven(place.address, token)
    except Unproven as error:
        reason, refused = str(error), True
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    found = loader()
    if found is None:
        if sock is not None:
            sock.close()
    elif sock is not None:
        found.call(found._connected, place, sock)
    else:
        found.call(found._failed, place, reason, refused)


def _proven(address: str, token: bytes) -> socket.socket:
    """A connection to an actor, by which both ends have proven the token. Local, if the actor is on this machine."""
    try:
        sock = socket.create_connection(Address.parse(address), ATTEMPT)
    except TimeoutError:
        raise TimeoutError(f"the host does not answer within {ATTEMPT:g} s. {HINT}") from None
    try:
        where = prove(sock, token, ATTEMPT)
        local = near.connect(where, ATTEMPT)
        if local is not None:
            sock.close()
            sock = local
            prove(sock, token, ATTEMPT)
    except BaseException:
        sock.close()
        raise
    return sock
