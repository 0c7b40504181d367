"""An actor: a process that makes iterations for trainers on any machine. Everything but the build runs on the loop's thread.

An actor builds the pipeline once and serves all ranks. It keeps no state from one request to the next. The loop's thread is entered once
per request, once per stage of an iteration, and once per answer; a large answer needs further entries when the socket is full. When a
trainer dies, the kernel reports the end of the connection to the loop, and the trainer's answers are dropped.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import socket
import threading
from collections.abc import Callable
from time import monotonic
from typing import Any

from asyncdali_workers.shared.system import Descriptors

from ..batch import Batch
from ..engines.child.maker import Maker
from ..engines.cut import narrow_cut
from ..engines.wire.encoding import Frame, PayloadPacker
from ..engines.wire.failures import packed
from ..graph.plan import build_plan
from ..pipeline import Pipeline
from ..pipeline.engines import program_of, start_engines
from ..pipeline.front import core_of
from ..runtime.counting.serving import offer
from ..runtime.order.loop import shared_loop
from ..runtime.work.making import Seeds
from . import messages
from .addresses import Address, bound
from .link import FrameError, Link
from .metrics import actor_metrics
from .near import NAME, Shelf, address_of_name, this_machine
from .proof import CHALLENGE, GREETING, REFUSAL, accepted, as_token, challenge

log = logging.getLogger("asyncdali")

HANDSHAKE = 10.0
"""Seconds that a trainer has for its proof."""
UNPROVEN = 128
"""Connections without a proof at a time. The oldest one is closed when there are more."""
REST = 0.5
"""Seconds for which nothing is accepted when no descriptor is free."""
LOOK = 5.0
"""Seconds that :meth:`Actor.statistics` waits for the loop's thread."""
QUIET = 60.0
"""Shortest interval (s) between two log lines about this."""
REQUESTS = 64
"""Requests of one connection at a time. A trainer asks for two or three."""
UNSENT = 256 << 20
"""Bytes of answers that wait for a connection. Above this, its next requests are not read."""


class Actor:
    """Makes iterations of a pipeline for the trainers that know the token.

    Args:
        train: a function decorated with `pipeline_def`, or one that takes pipeline options and returns a pipeline. Trainers use the same.
        listen: ``"host:port"``, the only address that is bound. Port 0: any free port.
        token: the fleet's secret, at least 16 bytes.
        options: further options and arguments of `train`: those of the trainers. ``num_threads`` may differ. With ``engines=N`` this
            process has N processes that do the work (docs/engines.md): it survives a sample that ends them, and the error names the sample.

    Attributes:
        address: ``"host:port"`` with the real port.

    Raises:
        OSError: the address cannot be bound.
        TypeError, ValueError: `train` makes no pipeline, the token is short, or the address cannot be understood.
        RuntimeError: the pipeline has nothing that an engine can make.
    """

    def __init__(self, train: Callable[..., Pipeline], *, listen: str = "127.0.0.1:0", token: bytes | str, **options: object):
        self._token = as_token(token)
        self._descriptors = Descriptors()
        self._socket = bound(Address.parse(listen))  # before the build, so an address in use is reported sooner
        self._socket = socket.socket(fileno=self._descriptors.add(self._socket.detach()))  # engines do not inherit it
        name = secrets.token_bytes(NAME)
        self._near = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._near = socket.socket(fileno=self._descriptors.add(self._near.detach()))
        self._near.bind(address_of_name(name))
        self._place = this_machine() + name
        self._shelf = Shelf()
        self._opened: list[Callable[[], None]] = [self._shelf.own.close]
        try:
            self._maker = self._build(train, options)
        except BaseException:
            self._end()
            raise
        self.address = Address.parse(listen).with_port(self._socket.getsockname()[1])
        self._loop = shared_loop()
        self._unproven: dict[_Guest, None] = {}
        self._peers: dict[Peer, None] = {}
        self._refused = 0
        self._past: dict[str, list[int]] = {}
        self._resting: dict[int, Any] = {}
        """Timers of the listening sockets that accept nothing for a while, by descriptor."""
        self._quiet_until = 0.0
        self._closed = threading.Event()
        self._withdraw = offer(self, _report)
        for listening in (self._socket, self._near):
            listening.setblocking(False)
            listening.listen(UNPROVEN)
            self._loop.call(self._accept, listening)

    def _build(self, train: Callable[..., Pipeline], options: dict[str, object]) -> Maker:
        pipeline = train(**options, enable_checkpointing=True)
        if type(pipeline) is not Pipeline:
            raise TypeError(f"an engine needs a function that returns a Pipeline, it returned a {type(pipeline).__name__}")
        core = core_of(pipeline)
        if core.options.seed is None:
            raise ValueError("the pipeline has no seed: every engine would draw another one. Give the same `seed` everywhere")
        core.options.check_for_build()
        core.options.engine_sources = False  # trainers call the sources
        if core.options.engine_cut is None:
            program = program_of(core)
            plan = build_plan(program.outputs, program.instances, program.definition, Seeds(program.seed).entry)
            core.options.engine_cut = narrow_cut(plan)
        engines = start_engines(core, self._opened.append) if core.options.engines else None
        program = program_of(core)
        core.enter_engine()
        self._largest = int(core.options.batch_size)
        """Samples of the largest iteration."""
        self._pipeline = pipeline  # the core refers to it weakly
        maker = Maker(program, self._shelf.pool, engines=engines, far=True)
        self._opened.append(maker.executor.close)
        if maker.empty:
            raise RuntimeError("no operator of this pipeline can run in an engine: all of them need a GPU, or only pass on fed data")
        return maker

    def _end(self) -> None:
        """Close everything that the build has opened."""
        for close in reversed(self._opened):
            close()
        for listening in (self._socket, self._near):
            if listening.fileno() >= 0:
                self._release(listening)

    # --- connections

    def _arrived(self, listening: socket.socket) -> None:
        try:
            sock, _ = listening.accept()
            sock = socket.socket(fileno=self._descriptors.add(sock.detach()))
        except OSError as error:
            if not isinstance(error, (BlockingIOError, ConnectionError)):  # else the connection has ended already
                self._rest(listening, error)
            return
        while len(self._unproven) >= UNPROVEN:
            next(iter(self._unproven)).close()
        self._unproven[_Guest(sock, self)] = None

    def _rest(self, listening: socket.socket, error: OSError) -> None:
        """Accept nothing for a while, because no descriptor or memory is free. The kernel would call again at once, without end."""
        time = monotonic()
        if time >= self._quiet_until:
            self._quiet_until = time + QUIET
            log.warning(
                "an engine cannot accept a connection: %s. It tries again every %g s. Connections wait meanwhile. Raise the limit of open "
                "files (ulimit -n), or use fewer trainers", error.strerror or error, REST,
            )  # fmt: skip
        number = listening.fileno()
        self._loop.loop.remove_reader(number)
        self._resting[number] = self._loop.loop.call_later(REST, self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        number = listening.fileno()
        self._resting.pop(number, None)
        self._loop.loop.add_reader(number, self._arrived, listening)

    def _release(self, sock: socket.socket) -> None:
        self._descriptors.close(sock.detach())

    def _gone(self, guest: _Guest, proven: bool) -> None:
        del self._unproven[guest]
        self._refused += not proven

    def _proven(self, sock: socket.socket) -> None:
        peer = Peer(sock, self)
        self._peers[peer] = None

    def _lost(self, peer: Peer) -> None:
        self._peers.pop(peer, None)
        past = self._past.setdefault(peer.name, [0, 0, 0, 0])
        for k, value in enumerate(peer.counted()):
            past[k] += value

    # --- for the owner

    def statistics(self) -> dict[str, Any]:
        """The work of this actor: ``iterations``, ``busy`` (ns), ``allocated`` (bytes), ``refused`` connections, and ``ranks``: asked,
        answered, bytes and busy nanoseconds by rank.

        TimeoutError: the thread that serves the trainers has not come to it for 5 s.
        """
        found: dict[str, Any] = {}
        done = threading.Event()
        engines = [] if self._loop.is_current() else self._counted_in_engines()

        def look() -> None:
            ranks = {name: list(values) for name, values in self._past.items()}
            for peer in self._peers:
                entry = ranks.setdefault(peer.name, [0, 0, 0, 0])
                for k, value in enumerate(peer.counted()):
                    entry[k] += value
            found.update(self._maker.statistics(engines), refused=self._refused, connections=len(self._peers))
            found["ranks"] = {name: dict(zip(("asked", "answered", "bytes", "busy"), values)) for name, values in sorted(ranks.items())}
            done.set()

        if self._loop.is_current():
            look()
        else:
            self._loop.call(look)
            if not done.wait(LOOK):
                raise TimeoutError(
                    f"the engine {self.address} has not counted its work within {LOOK:g} s: the thread that serves its trainers does "
                    "something else. `py-spy dump --pid {os.getpid()}` shows what; ask again later"
                )
        return found

    def _counted_in_engines(self) -> list[dict[str, object]]:
        """The counters of the processes that do the work. Waits for their answers."""
        return [] if self._maker.engines is None else self._maker.engines.statistics()

    def _tell_statistics(self, tell: Callable[[dict[str, object]], None]) -> None:
        """Call `tell` with the work of this actor, on the loop's thread."""
        if self._maker.engines is None:
            tell(self._maker.statistics())
            return

        def collect() -> None:
            engines = self._counted_in_engines()
            self._loop.call(lambda: tell(self._maker.statistics(engines)))

        threading.Thread(target=collect, name="asyncdali-statistics", daemon=True).start()  # the loop must not wait

    def metrics(self) -> str:
        """:meth:`statistics` as text for Prometheus."""
        return actor_metrics(self.address, self.statistics())

    def wait(self) -> None:
        """Serve until :meth:`close`, which another thread or a signal handler calls."""
        while not self._closed.wait(3600):
            pass

    def close(self) -> None:
        """Close all connections and stop. Idempotent."""
        if self._closed.is_set():
            return
        self._withdraw()
        done = threading.Event()

        def end() -> None:
            self._loop.loop.remove_reader(self._socket.fileno())
            self._loop.loop.remove_reader(self._near.fileno())
            for timer in self._resting.values():
                timer.cancel()
            for guest in list(self._unproven):
                guest.close()
            for peer in list(self._peers):
                peer.close()
            done.set()

        if self._loop.is_current():
            end()
        else:
            self._loop.call(end)
            done.wait(1.0)
        self._end()
        self._closed.set()

    def __enter__(self) -> Actor:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _report(actor: Actor) -> dict[str, object]:
    """For ``asyncdali top``."""
    return {"actor": actor.address, "statistics": actor.statistics()}


class _Guest:
    """A connection before its proof. At most 64 bytes are read."""

    def __init__(self, sock: socket.socket, actor: Actor):
        self._sock, self._actor = sock, actor
        self._challenge = challenge()
        self._data = b""
        self._number = sock.fileno()
        self._loop = shared_loop().loop
        sock.setblocking(False)
        self._timer = self._loop.call_later(HANDSHAKE, self.close)
        self._loop.add_reader(self._number, self._readable)
        with contextlib.suppress(OSError):  # a lost connection is reported to _readable
            sock.send(GREETING + self._challenge)

    def _readable(self) -> None:
        try:
            part = self._sock.recv(2 * CHALLENGE - len(self._data))
        except BlockingIOError:
            return
        except OSError:
            part = b""
        self._data += part
        if not part:
            self.close()
        elif len(self._data) == 2 * CHALLENGE:
            answer = accepted(self._actor._token, self._challenge, self._data)
            if answer is None:
                with contextlib.suppress(OSError):
                    self._sock.send(REFUSAL)
                self.close()
                return
            self._leave(True)
            with contextlib.suppress(OSError):
                self._sock.send(answer + self._actor._place)
            self._actor._proven(self._sock)

    def _leave(self, proven: bool) -> None:
        self._timer.cancel()
        self._loop.remove_reader(self._number)
        self._actor._gone(self, proven)

    def close(self) -> None:
        """Refuse the connection."""
        if self in self._actor._unproven:
            self._leave(False)
            self._actor._release(self._sock)


class Peer:
    """A trainer that has proven the token."""

    def __init__(self, sock: socket.socket, actor: Actor):
        self._actor, self._maker = actor, actor._maker
        self.name = "?"
        self.asked = self.answered = self.busy = 0
        lender = actor._shelf.lender() if sock.family == socket.AF_UNIX else None
        self._link = Link(sock, self._maker.executor.pool.allocate, self._received, self._lost, actor._release, lender)
        self._link.send({"ready": os.getpid(), "is": self._maker.description})

    def counted(self) -> tuple[int, int, int, int]:
        """Asked, answered, bytes sent, busy nanoseconds."""
        return self.asked, self.answered, self._link.sent, self.busy

    def _lost(self, reason: str) -> None:
        log.info("the connection to rank %s has ended: %s", self.name, reason)
        self._actor._lost(self)

    def close(self) -> None:
        """Close the connection."""
        if not self._link.closed:
            self._link.close()
            self._actor._lost(self)

    def _guarded(self, function: Callable[..., None], *args: object) -> None:
        """Call a method. An unexpected error ends this connection, and no other."""
        try:
            function(*args)
        except Exception:
            log.exception("unexpected error in an engine; the connection to rank %s is closed", self.name)
            self.close()

    def _received(self, header: dict[str, Any], body: memoryview, payloads: list[Any]) -> None:
        if "k" in header:
            messages.key([header.get("i"), header.get("g")])
            messages.request(header, self._actor._largest)
            fed = {name: messages.batch(entry, body, payloads) for name, entry in header["fed"].items()}
            if self.asked - self.answered >= REQUESTS:
                raise FrameError(f"more than {REQUESTS} requests at a time")
            self.asked += 1
            self._maker.begin({**header, "fed": fed}, lambda batch: batch, self._answer, self._guarded)
        elif "rank" in header:
            self.name = str(messages.number(header["rank"], "the rank"))
        elif "statistics" in header:
            self._actor._tell_statistics(lambda found: self._link.send({"statistics": found}))
        else:
            raise FrameError(f"a message of an unknown kind: {', '.join(map(repr, list(header)[:5]))}")

    def _answer(self, header: dict[str, Any], batches: list[Batch]) -> None:
        packer, frame = PayloadPacker(), Frame()
        self._actor._shelf.sweep()
        if "a" in header:
            self.answered += 1
            self.busy += header["took"]
        try:
            if batches:
                header["out"] = [packer.pack(batch, frame) for batch in batches]
            self._link.send(header, frame.joined(), packer.payloads, packer.keep)
        except (FrameError, MemoryError) as error:
            header.pop("out", None)
            self._link.send({**header, "error": packed(error)})
        if self._link.unsent > UNSENT:
            self._link.pause()  # resumed by the link when all is sent
