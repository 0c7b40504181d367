"""Requests, answers, and the order of iterations. One thread of the training process at a time decides.

If engines make whole iterations, the threads that call the pipeline decide: a waiting call receives the answers (:meth:`Loader.drive`).
No other thread is woken, and nothing runs beside the training step. Otherwise the loop's thread decides: segments behind the cut begin
when an answer arrives, and a coroutine does not wait on a thread.

A request for an iteration contains the positions before it. The least busy engine gets the request; this choice is only a hint. Answers are
delivered in order. When an engine ends, its iterations are requested again, from the same positions. An iteration at which two engines
ended has failed.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any

from asyncdali_workers.interrupts import uninterrupted

from ..device.buffers import BufferPool
from ..errors import PipelineClosed, SampleError, operator_error
from ..graph.plan import Plan
from ..runtime.executor import Executor, Record
from ..runtime.loop import LoopThread
from ..runtime.segments import BuiltSegment, SegmentRun
from . import channel as channels
from . import fixed
from .blocks import Lease
from .cut import Cut
from .encoding import Frame, Packer, lease_of, unpack
from .failures import EngineError, packed, unpacked
from .fast_path import ATOMIC, FastPath
from .ordered import NOTHING, Asked, Ordered
from .receiver import Receiver
from .search import Search
from .sources import Call
from .spans import hand_on
from .steps import RENEWED, Base, Behind

if TYPE_CHECKING:
    from ..batch import Batch
    from ..runtime.session import Session
    from .pool import EnginePool, EngineProcess

WINDOW = 2
"""Iterations in flight per engine: an engine plans the second while its threads work on the first."""

ANSWERS = 1.0
"""Seconds that :meth:`Loader.statistics` waits for the engines' own numbers. A busy engine answers after its iteration."""

SHORT = 0.02
"""Interval (s) at which :meth:`Loader.statistics` checks for answers that another thread has received."""

PAUSE = 0.5
"""Longest time (s) that a waiting call sleeps before it checks whether the loop's thread has taken over."""

WATCHING = 1.0
"""Longest interval (s) between two checks for engines that have not answered for `engine_timeout`."""

DEATHS = 2
"""An iteration fails when this number of engines ended while they made it."""

SOURCE_DEATHS = 3
"""A call of a source fails when this number of engines ended in it. Another program may have killed one or two of these engines."""

STARTS = 3
"""Number of consecutive replacements that may end before they are ready."""


class Request(Asked):
    """An iteration requested from engines of this machine."""

    base: Base | None = None  # the positions are those of `base` moved on by `steps` iterations; None: the header has the positions
    steps = 0
    blocks: Mapping[int, int] = NOTHING  # blocks of this process that the request refers to
    keep: Sequence[Any] = ()  # objects that keep these blocks in use
    engine: EngineProcess | None = None
    home: Place | None = None  # the engine that has the batches of its sources
    sent = 0.0
    deaths = 0
    died = "", "", 0, -1  # of the engine that died last: reason, activity, operator number, sample
    search: Search | None = None  # the search for the sample at which engines die
    spared = False  # a search has found no sample


class Place:
    """One of the engines. The object stays when the process is replaced."""

    def __init__(self, engine: EngineProcess):
        self.engine = engine
        self.outstanding: OrderedDict[tuple[int, int], Request] = OrderedDict()
        self.calls: OrderedDict[int, Call] = OrderedDict()  # calls of sources that are not answered, by token
        self.alone = False  # whether this engine makes an iteration at which an earlier engine died
        self.heard = 0.0  # time of the last answer
        self.starts = 0  # consecutive replacements that ended before they were ready
        self.asked = self.answered = self.restarts = self.busy = self.bytes = 0


class Loader(Ordered[Request]):
    """Runs the segment before the cut in engines."""

    kind = Request

    def __init__(self, pool: EnginePool, cut: Cut, plan: Plan, executor: Executor, segment: BuiltSegment):
        if executor.gpu is not None:
            self._receiver = Receiver(executor.threads.rstrip("-"))
            executor.admits = self._receiver.call
        super().__init__(cut, plan, executor, segment)
        self._caller: LoopThread | Receiver = self._receiver or self._loop
        self._pool = pool
        self._names = [planned.spec.name for planned in plan.operators]
        self._called = [planned.spec.name for planned in cut.before if cut.called(planned)]
        self._fed += tuple(self._called)
        self._places = [Place(engine) for engine in pool.engines]
        self._keep: list[Any] = []
        allocate = (pool.pool or BufferPool(pool.own.make)).allocate
        self._packer = Packer(pool.own, allocate, self._kept)
        self._stateful = {built.planned.spec.name: built for built in segment.stateful}
        self._base: Base | None = None
        self._steps = self._bases = 0
        self._before: Behind | None = None  # positions before the next iteration; the same as `_base` moved on by `_steps`
        self._watched = False
        self._waiting: list[Callable[[dict[str, Any]], None]] = []
        self.deciding = threading.RLock()
        """Held by the thread that decides."""
        self._later: deque[Callable[[], None]] = deque()
        self._poll = select.poll()
        self._receiving = threading.Lock()  # a poll object serves one thread at a time
        self._channels: dict[int, Place] = {}
        for place in self._places:
            self._await(place)
        self._here = self._may_stay(pool.depth)
        if self._here:
            executor.here = self
            executor.start_at_once(segment)
        else:
            self._caller.call(self._listen_all)

    def _may_stay(self, depth: int) -> bool:
        """Whether nothing has to happen between two calls of the pipeline."""
        behind = len(self._executor.outputs) and self._executor.is_single(self._segment)
        requests_fit = depth <= WINDOW * len(self._places)
        return bool(behind) and requests_fit and not self._called and not self._chained and self._executor.gpu is None

    # --- decisions on the threads that call the pipeline (``runtime.engine_protocol.Here``)

    def decide(self, function: Callable[..., None], *args: Any) -> bool:
        if not self._here:
            return False
        with uninterrupted(), self.deciding:
            if not self._here:
                return False
            try:
                function(*args)
                while self._later:
                    self._later.popleft()()
            except Exception as error:
                self._executor.broke(error)
            return True

    def drive(self, record: Record) -> bool:
        pause = PAUSE if self._pool.timeout is None else min(PAUSE, self._pool.timeout / 4)
        while not record.finished:
            if not self._here:
                return False
            self._receive(pause, record)
        return True

    def _receive(self, seconds: float, record: Record | None = None) -> None:
        """Wait for answers, and handle those that have arrived. Signals interrupt the wait."""
        with self._receiving:
            if record is not None and record.finished:  # another thread has received it
                return
            found = self._poll.poll(seconds * 1000)
        if not found:
            self.decide(self._look_once)
        for descriptor, _ in found:
            place = self._channels.get(descriptor)
            if place is not None:
                self.decide(self._readable, place, place.engine)

    def _soon(self, function: Callable[[], None]) -> None:
        if self._here:
            self._later.append(function)
        else:
            super()._soon(function)

    def leave_to_loop(self) -> None:
        with uninterrupted(), self.deciding:
            if self._here:
                self._here = False
                self._executor.here = None
                self._caller.call(self._listen_all)
                self._caller.call(self._watch_soon)

    def _await(self, place: Place) -> None:
        self._channels[place.engine.channel.fileno()] = place
        self._poll.register(place.engine.channel, select.POLLIN)

    # --- the fast path

    def fast_path(self, session: Session) -> FastPath | None:
        """The fast path for calls of ``run()``. None if every call has something to do that the fast path does not know."""
        crossing, outputs = self._cut.crossing, self._executor.outputs
        unusual = session.part is not None or session.checks_outputs or session.producer.sources.ports
        if not self._here or unusual or not session.options.exec_async or not ATOMIC:
            return None
        return FastPath(self, session, [crossing.index(edge) for edge in outputs], len(crossing))

    def give_up(self, indices: range) -> tuple[Base, int, list[Place]] | None:
        """Hand the requests in flight to the fast path. None if something unusual is going on.

        Returns the base, the steps to the next iteration, and the engines: iteration `k` belongs to number `k` modulo their number.
        """
        base, places = self._base, self._places
        if not self._here or self._closed or self._broken is not None or base is None or self._steps >= RENEWED:
            return None
        if list(self._asked) != list(indices):
            return None
        for place in places:
            engine = place.engine
            if not engine.ready or engine.base is not base or engine.gone or engine.unneeded or engine.announced_to_us or place.alone:
                return None
        count = len(places)
        holders = [self._holder(asked, base) for asked in self._asked.values()]
        first = next((places.index(place) - index for index, place in zip(indices, holders) if place is not None), 0)
        ends = [places[(first + k) % count] for k in range(count)]
        if any(place is not ends[index % count] for index, place in zip(indices, holders)):
            return None
        if sum(len(place.outstanding) for place in places) != len(indices):
            return None
        self._asked.clear()
        for place in places:
            place.outstanding.clear()
        self._executor.withdraw_all()
        return base, self._steps, ends

    def _holder(self, asked: Request, base: Base) -> Place | None:
        """The engine that makes an iteration in the usual way."""
        if asked.base is not base or asked.generation or asked.deaths or asked.answer is not None or asked.error is not None:
            return None
        return next((place for place in self._places if place.engine is asked.engine), None)

    def take_back(self, record: Record, base: Base, steps: int, place: Place | None) -> None:
        """Take an iteration back from the fast path. `place` has its request; None: the request was not sent."""
        asked = self._asked[record.index] = Request(self._executor.admit_again(record), Behind(base, steps))
        asked.base, asked.steps = base, steps
        record.positions = Behind(base, steps + 1)
        if place is not None:
            asked.engine, asked.sent = place.engine, monotonic()
            place.outstanding[record.index, 0] = asked

    def go_on(self, index: int, steps: int) -> None:
        """The next iteration is number `index`, that many steps behind the base."""
        self._executor.admit_from(index)
        self._steps, self._before = steps, None

    def dispatch(self) -> None:
        """Deliver what has arrived, and send what is not sent."""
        self._deliver()
        self._dispatch()

    def pass_on(self, place: Place, engine: EngineProcess, data: bytes) -> None:
        """Handle a message that arrived for the fast path after its end."""
        if not self.decide(self.receive, place, engine, data):
            self._caller.call(self._decide, self.receive, place, engine, data)

    def note_shapes(self, batches: Sequence[Batch]) -> None:
        """For statistics: the next iterations have outputs of these shapes."""
        counters = self._segment.counters
        if counters is not None:
            counters.changed(dict(zip(self._cut.crossing, batches)))

    def count_iterations(self, count: int) -> None:
        """For statistics: the fast path has delivered iterations."""
        counters = self._segment.counters
        if counters is not None:
            counters.passed_by(count)

    # --- requests

    def begin(self, run: SegmentRun) -> None:
        record = run.record
        counters = self._executor.counters
        traced = counters is not None and counters.recorder is not None
        if not self._here or self._fed or record.whole or self._broken is not None or traced:
            self._settle()
            super().begin(run)
            return
        base = self._base
        if base is None or base.samples != record.batch_size:
            self._settle()
            positions = {name: built.position for name, built in self._stateful.items()}
            base = self._base = self._new_base(positions, record.batch_size)
        before = Behind(base, self._steps) if self._before is None else self._before
        asked = self._asked[record.index] = Request(run, before)
        asked.base, asked.steps = base, self._steps
        self._steps += 1
        record.positions = self._before = Behind(base, self._steps)
        run.committed = True
        place = self._room(asked)
        if place is not None:
            self._send(asked, place)

    def _new_base(self, positions: Mapping[str, Any], samples: int) -> Base:
        self._bases += 1
        self._steps, self._before = 0, None
        return Base(self._bases, self._stateful, positions, samples)

    def _settle(self) -> None:
        """Bring the operators to their positions: the next request contains them."""
        if self._base is not None:
            self._segment.go_to(self._base.at(self._steps))
            self._base = None

    def _stands(self, number: int, steps: int, data: dict[str, Any]) -> None:
        """An engine reports the positions `steps` iterations behind a base. Later requests are counted from there."""
        base = self._base
        if base is not None and base.number == number and 0 < steps <= self._steps:
            ahead = self._steps - steps
            positions = {name: built.load(data[name]) for name, built in self._stateful.items()}
            self._base = self._new_base(positions, base.samples)
            self._steps, self._before = ahead, None

    def _correct(self, asked: Asked, produced: dict[str, int]) -> None:
        """An iteration's data changed the positions unexpectedly. From now on each request waits for the answer to the previous one."""
        self._settle()
        for item in self._asked.values():
            if item.base is not None:
                item.run.record.positions = {}
                self._packed(item, self._packer, Frame())
                item.base = None
        self._executor.start_in_turns()
        self.leave_to_loop()
        super()._correct(asked, produced)

    def _pack(self, asked: Request) -> None:
        frame = Frame()
        self._keep = asked.keep = []
        self._packed(asked, self._packer, frame)
        body = frame.joined()
        if self._called:
            self._name_sources(asked)
        if len(body) > channels.LARGEST // 2:
            # The positions are small and may need a correction, so only the frame goes through a block.
            asked.header["large"] = self._packer.place(body)
            body = b""
        asked.body = body
        asked.blocks = dict(self._packer.used)
        self._packer.used.clear()

    def _withdraw(self, asked: Request) -> None:
        asked.engine, asked.search = None, None

    def _name_sources(self, asked: Request) -> None:
        """Name the batches that an engine has from its sources. Any other engine would call the sources again."""
        calls: dict[int, Call] = {}
        fills: dict[int, dict[str, Any]] = {}
        for name in self._called:
            batch = asked.run.record.fed[name]
            calls[batch.call.token] = batch.call
            fill = batch.fill()
            fills.setdefault(batch.call.token, {}).update({} if fill is None else {name: fill})
        asked.header["sources"] = [[call.token, call.source, call.position, fills[token]] for token, call in calls.items()]
        asked.home = self._home(next(iter(calls.values())))

    def _home(self, call: Call) -> Place:
        """The engine that makes a call: the same one for all sources of an iteration."""
        return self._places[call.iteration % len(self._places)]

    def _kept(self, owner: Any) -> int:
        self._keep.append(owner)
        return 0

    def _dispatch(self) -> None:
        """Send requests that no engine works on to engines with room."""
        if self._closed or self._broken is not None:
            return
        for asked in self._asked.values():
            if asked.engine is None and asked.answer is None and asked.error is None:
                place = self._room(asked)
                if place is not None:
                    self._send(asked, place)
                elif asked.home is None:
                    return

    def _room(self, asked: Request) -> Place | None:
        home = asked.home
        if home is not None and not asked.deaths:
            return None if home.alone or len(home.outstanding) >= WINDOW else home
        count = len(self._places)
        if count == 1 and not asked.deaths:
            place = self._places[0]
            return None if place.alone or len(place.outstanding) >= WINDOW else place
        number = asked.run.record.index
        free = [place for place in self._places if not place.alone and len(place.outstanding) < (1 if asked.deaths else WINDOW)]
        return min(free, key=lambda place: (len(place.outstanding), (place.engine.number - number) % count), default=None)

    def _send(self, asked: Request, place: Place) -> None:
        engine = place.engine
        asked.engine = engine
        asked.sent = monotonic()
        place.outstanding[asked.run.record.index, asked.generation] = asked
        place.alone = asked.deaths > 0
        place.asked += 1
        record, base = asked.run.record, asked.base
        try:
            if base is not None and base is engine.base and asked.search is None and not (engine.gone or engine.unneeded):
                report = base is self._base and asked.steps >= RENEWED
                wanted = report, record.index, asked.generation, record.number, record.batch_size, asked.steps
                channels.send_now(engine.channel, fixed.request(wanted, engine.returned))
                return
            header, descriptors = self._outer(engine, asked.blocks)
            if base is not None:
                self._packed(asked, self._packer, Frame())
                engine.base = base
            header.update(asked.header, g=asked.generation)
            if asked.search is not None:
                header.update(slice=asked.search.probe, probe=1)
            channels.send_now(engine.channel, channels.message(header, asked.body), descriptors)
        except OSError:
            pass  # the engine has ended, and its socket reports the end; the socket's buffer always has room for two requests
        self._watch_soon()

    def _place(self, asked: Asked) -> None:
        assert isinstance(asked, Request)
        if asked.base is None:
            super()._place(asked)
        else:
            asked.header.update(base=[asked.base.number, asked.base.samples, asked.base.data()], steps=asked.steps, g=asked.generation)

    def _watch_soon(self) -> None:
        if not self._here and self._pool.timeout is not None and not self._watched:
            self._watched = True
            self._caller.call_later(min(self._pool.timeout / 4, WATCHING), self._decide, self._watch)

    # --- sources

    def call_source(self, call: Call) -> None:
        """Request a call of a source from an engine. May be called from any thread."""
        self._caller.call(self._decide, self._begin_call, call)

    def _begin_call(self, call: Call) -> None:
        if self._closed:
            call.failed(PipelineClosed("the pipeline was closed"))
        elif self._broken is not None:
            call.failed(RuntimeError(self._broken))
        else:
            place = self._home(call)
            place.calls[call.token] = call
            self._send_call(call, place)

    def _send_call(self, call: Call, place: Place) -> None:
        engine = place.engine
        call.hold(engine.unneeded)
        call.sent = monotonic()
        header, descriptors = self._outer(engine, {})
        header.update(ask=call.token, source=call.source, position=call.position)
        with contextlib.suppress(OSError):  # the engine has ended, which its socket reports
            channels.send_now(engine.channel, channels.message(header), descriptors)
        self._watch_soon()

    def _source_heard(self, place: Place, header: dict[str, Any]) -> None:
        call = place.calls.pop(header["asked"], None)
        if call is None:
            return
        place.busy += header["took"]
        if "error" in header:
            error = unpacked(header["error"])
            call.failed(error if isinstance(error, Exception) else RuntimeError(f"{type(error).__name__}: {error}"))
        elif "end" in header:
            call.failed(StopIteration())
        else:
            call.answered(header["nodes"])

    def _calls_lost(self, place: Place, engine: EngineProcess) -> None:
        """An engine has ended: its replacement makes its calls. A call at which several engines ended has failed."""
        source, iteration, sample = engine.source_status()
        for token, call in list(place.calls.items()):
            if engine.ready and (source, iteration) == (call.source, call.iteration):
                call.deaths += 1
                if call.deaths >= SOURCE_DEATHS:
                    del place.calls[token]
                    call.failed(self._source_death(call, engine.reason, sample))

    def _source_death(self, call: Call, reason: str, sample: int) -> Exception:
        group = self._cut.groups[call.source]
        planned = next(planned for planned in self._cut.before if planned.attachment is group)
        text = f"an engine {reason} while it called the source {group.name!r}. {call.deaths} engines ended at this call."
        return operator_error(planned, EngineError(text) if sample < 0 else SampleError(sample, text), call.index)

    def _outer(self, engine: EngineProcess, blocks: Mapping[int, int]) -> tuple[dict[str, Any], list[int]]:
        """Fields that every message has: leases that ended, new blocks, and freed blocks."""
        header: dict[str, Any] = {}
        gone = self._pool.own.take_gone()
        if gone:
            for place in self._places:
                place.engine.gone += [number for number in gone if number in place.engine.announced]
        if engine.gone:
            header["gone"] = engine.gone
            engine.announced.difference_update(engine.gone)
            engine.gone = []
        if engine.unneeded:
            header["unneeded"] = [engine.unneeded.popleft() for _ in range(len(engine.unneeded))]
        if engine.returned:
            back = []
            while engine.returned:
                back.append(engine.returned.popleft())
            header["back"] = back
        new = {number: descriptor for number, descriptor in blocks.items() if number not in engine.announced}
        if new:
            header["new"] = list(new)
            engine.announced.update(new)
        return header, list(new.values())

    # --- answers

    def _listen_all(self) -> None:
        with self.deciding:  # the thread that handed over may still be deciding
            if not self._closed:
                for place in self._places:
                    self._listen(place)

    def _ignore(self, place: Place) -> None:
        descriptor = place.engine.channel.fileno()
        if self._channels.pop(descriptor, None) is not None:
            self._poll.unregister(descriptor)
            if not self._here:
                self._caller.remove_reader(descriptor)

    def _listen(self, place: Place) -> None:
        self._caller.add_reader(place.engine.channel.fileno(), self._decide, self._readable, place, place.engine)

    def _readable(self, place: Place, engine: EngineProcess) -> None:
        # Read one message only. A second read would usually raise BlockingIOError, and the loop calls again if there are more messages.
        if engine.ended or self._closed:
            return
        try:
            data, descriptors = channels.receive_now(engine.channel)
        except BlockingIOError:
            return
        if not data:
            self._lost(place, engine)
            return
        self.receive(place, engine, data, descriptors)

    def receive(self, place: Place, engine: EngineProcess, data: bytes, descriptors: Sequence[int] = ()) -> None:
        """Handle a message of an engine."""
        if data.startswith(fixed.MARK):
            self._heard_whole(place, engine, data)
            return
        if data == channels.CARRIER and not engine.announced_to_us:  # a call of the fast path has the announcement and passes it on soon
            engine.carried = descriptors
            return
        announced, engine.announced_to_us = engine.announced_to_us, b""
        header, body = channels.parsed(announced or data)
        if header.get("new") and not announced:
            if engine.carried is None:
                engine.announced_to_us = data  # the next message carries the descriptors
                return
            descriptors, engine.carried = engine.carried, None
        if len(descriptors) < len(header.get("new", ())):  # the kernel drops descriptors beyond the limit; a replacement sends its own
            for descriptor in descriptors:
                os.close(descriptor)
            engine.kill("could not hand over memory, because this process has no free file descriptor (ulimit -n)")
            return
        for number, descriptor in zip(header.get("new", ()), descriptors):
            engine.blocks.add(number, descriptor)
        gone = header.get("gone")
        lease = None
        if "large" in header:
            lease = Lease(None, header["large"][3], engine.returned, 0)
            try:
                header, body = channels.parsed(engine.blocks.bytes(header["large"]))
            except MemoryError as error:
                header = _unreadable(header, engine, error)
        self._heard(place, engine, header, body)
        del lease
        if gone:
            engine.blocks.drop(gone)

    def _heard_whole(self, place: Place, engine: EngineProcess, data: bytes) -> None:
        """An answer in fixed form."""
        count, index, generation, took, _, _ = fixed.ANSWER.unpack_from(data)
        place.heard = monotonic()
        place.alone = False
        place.answered += 1
        place.busy += took
        asked = place.outstanding.pop((index, generation), None)
        if asked is None or asked.generation != generation:
            fixed.drop(data, engine.returned)
        else:
            try:
                asked.answer = {"out": fixed.batches(data, count, engine.templates, engine.blocks, engine.returned)}
            except (ValueError, MemoryError) as error:
                fixed.drop(data, engine.returned)  # a lease that is returned twice does no harm
                asked.error = EngineError(f"the answer of engine {engine.number} cannot be used: {error}")
            asked.keep = ()
        self._deliver()
        self._dispatch()

    def _heard(self, place: Place, engine: EngineProcess, header: dict[str, Any], body: memoryview) -> None:
        place.heard = monotonic()
        if "a" in header:
            engine.templates.extend(fixed.Template(*item) for item in header.get("templates", ()))
            key = tuple(header["a"])
            place.alone = False
            place.answered += 1
            place.busy += header["took"]
            recorder = self._recorder()
            if recorder is not None and "spans" in header:
                hand_on(header["spans"], recorder.span, engine.number)
            asked = place.outstanding.pop(key, None)
            if asked is None or asked.generation != key[1]:
                engine.returned.extend(lease_of(entry) for entry in header.get("out", ()) if lease_of(entry))
            if asked is not None and asked.generation == key[1] and asked.search is not None:
                asked.search.survived()
                self._search_on(asked)
            elif asked is not None and asked.generation == key[1]:
                self._answered(asked, engine, header, body)
            self._deliver()
            self._dispatch()
        elif "planned" in header:
            self._planned(place.outstanding.get(tuple(header["planned"])), header["produced"])
        elif "stands" in header:
            self._stands(*header["stands"])
        elif "asked" in header:
            self._source_heard(place, header)
        elif "ready" in header:
            refusal = self._pool.refusal(engine, header)
            if refusal:  # for example packages were replaced after the other engines started
                engine.kill("differs from this process")
                self._give_up(refusal)
                return
            engine.ready, engine.pid, place.starts = True, header["ready"], 0
        elif "failed" in header:
            engine.reason = f"could not be built again: {unpacked(header['failed'])}"
        elif "statistics" in header and self._waiting:
            self._waiting.pop(0)({"engine": engine.number, **header["statistics"]})

    def _answered(self, asked: Request, engine: EngineProcess, header: dict[str, Any], body: memoryview) -> None:
        if "error" in header:
            asked.error = unpacked(header["error"])
        else:
            returned = engine.returned

            def lease(mapping: Any, number: int, size: int) -> Lease:
                return Lease(mapping, number, returned, size)

            try:
                header["out"] = [unpack(entry, body, engine.blocks, lease) for entry in header["out"]]
            except (ValueError, MemoryError) as error:
                engine.returned.extend(lease_of(entry) for entry in header["out"] if type(entry) is list and lease_of(entry))
                asked.error = EngineError(f"the answer of engine {engine.number} cannot be used: {error}")
        asked.answer = header
        asked.keep = ()

    # --- faults

    def _watch(self) -> None:
        """End engines that have not answered for `engine_timeout` seconds."""
        self._watched = False
        timeout = self._pool.timeout
        if timeout is not None and self._check_times():
            self._watched = True
            self._caller.call_later(min(timeout / 4, WATCHING), self._decide, self._watch)

    def _look_once(self) -> None:
        self._check_times()

    def _check_times(self) -> bool:
        """Kill engines that are late. Returns whether anything is outstanding."""
        timeout = self._pool.timeout
        if self._closed or timeout is None:
            return False
        time, busy = monotonic(), False
        for place in self._places:
            waiting = [next(iter(queue.values())).sent for queue in (place.outstanding, place.calls) if queue]  # type: ignore[attr-defined]
            if waiting and place.engine.ready and time - max(min(waiting), place.heard) > timeout:
                place.engine.kill(f"did not answer for {timeout:g} s (engine_timeout)")
            busy = busy or bool(waiting)
        return busy or bool(self._asked)

    def _lost(self, place: Place, engine: EngineProcess) -> None:
        """Handle the end of an engine."""
        self._ignore(place)
        iteration, what, number, sample = engine.status()
        ready, reason = engine.ready, engine.reason
        engine.close()
        if self._closed:
            return
        for (_, generation), asked in place.outstanding.items():
            if asked.generation != generation:
                continue
            asked.engine = None
            asked.deaths += ready
            doing = self._doing(what, number) if iteration == asked.run.record.number else ""
            if asked.search is not None and ready:
                asked.search.died()
                asked.died = reason, doing, number, sample
                self._search_on(asked)
            elif asked.deaths >= DEATHS and asked.search is None:
                asked.died = reason, doing, number, sample
                if asked.spared or self._why_whole:
                    asked.error = self._death(asked)
                else:
                    record = asked.run.record
                    low, high = record.first, record.first + record.batch_size
                    if doing and sample >= 0:  # the status page names the sample, so the search begins with this sample only
                        low, high = low + sample, low + sample + 1
                    asked.search = Search(low, high)
                    self._search_on(asked)
        place.outstanding.clear()
        self._calls_lost(place, engine)
        place.alone = False
        place.restarts += 1
        place.starts = 0 if ready else place.starts + 1
        if place.starts >= STARTS:
            self._give_up(f"engine {engine.number} {reason}, {STARTS} times before it was ready: the pipeline cannot continue")
            return
        try:
            place.engine = self._pool.launch(engine.number)
        except Exception as error:
            self._give_up(f"engine {engine.number} {reason} and cannot be replaced: {error}")
            return
        place.heard = 0.0
        self._pool.engines[engine.number] = place.engine
        self._await(place)
        if not self._here:
            self._listen(place)
        for call in place.calls.values():
            self._send_call(call, place)
        self._deliver()
        self._dispatch()

    def _search_on(self, asked: Request) -> None:
        """Request the next part of an iteration at which engines end, or set the iteration's error when the search is done."""
        assert asked.search is not None
        asked.generation += 1
        asked.engine = None
        if asked.search.probe is not None:
            return
        if asked.search.sample < 0 and not asked.spared:  # another program may have killed the engines: run the whole iteration once more
            asked.spared, asked.search, asked.deaths = True, None, DEATHS - 1
        else:
            asked.error = self._death(asked)

    def _doing(self, what: int, number: int) -> str:
        planned = self._operators[self._names[number]]
        name = f"`asyncdali.fn.{planned.spec.schema.name}` (name {planned.spec.name!r})"
        if what == 2:
            return f" while it made the pixels of the segment that begins with {name}"
        return f" while it ran {name}" if what == 1 else f" while it made the pixels of {name}"

    def _death(self, asked: Request) -> BaseException:
        """The error of an iteration at which engines ended."""
        reason, doing, number, sample = asked.died
        record, search = asked.run.record, asked.search
        planned = self._operators[self._names[number]] if doing else self._segment.operators[0].planned
        text = f"an engine {reason}{doing}. {asked.deaths} engines ended at this iteration."
        if asked.spared:
            text += " No sample does so by itself."
            sample = -1
        elif search is None:
            text += f" Its samples cannot be tried one by one: {self._why_whole}."
            sample = record.first + sample if doing and sample >= 0 else -1
        else:
            text += f" Sample {search.sample} does so by itself."
            sample = search.sample
        return operator_error(planned, EngineError(text) if sample < 0 else SampleError(sample, text), record.number)

    def _give_up(self, reason: str) -> None:
        self._fail_calls(RuntimeError(reason))
        super()._give_up(reason)

    def _fail_calls(self, error: Exception) -> None:
        for place in self._places:
            while place.calls:
                place.calls.popitem()[1].failed(error)

    # --- statistics

    def statistics(self) -> list[dict[str, Any]]:
        """The work of each engine. For an engine that does not answer within a second, only the part known in this process."""
        found: dict[int, dict[str, Any]] = {}
        done = threading.Event()

        def heard(data: dict[str, Any]) -> None:
            found[data["engine"]] = data
            if len(found) == len(self._places):
                done.set()

        def wait() -> None:
            end = monotonic() + ANSWERS
            while self._here and not done.is_set() and monotonic() < end:
                if self._receiving.locked():  # a call that waits for an iteration receives all messages
                    done.wait(SHORT)
                else:
                    self._receive(SHORT)
            done.wait(max(0.0, end - monotonic()))

        def ask() -> None:
            for place in self._places:
                self._waiting.append(heard)
                header, descriptors = self._outer(place.engine, {})
                try:
                    channels.send_now(place.engine.channel, channels.message({**header, "statistics": 1}), descriptors)
                except OSError:
                    pass

        if not self._closed and not self._caller.is_current():
            if not self.decide(ask):
                self._caller.call(self._decide, ask)
            wait()
        return [
            {
                "engine": place.engine.number, "pid": place.engine.pid, "asked": place.asked, "answered": place.answered,
                "outstanding": len(place.outstanding),
                "restarts": place.restarts, "busy_seconds": place.busy / 1e9, **found.get(place.engine.number, {}),
            }
            for place in self._places
        ]  # fmt: skip

    # --- the end

    def close(self) -> None:
        """Stop listening."""
        if self._closed:
            return
        done = threading.Event()

        def end() -> None:
            self._closed = True
            for place in self._places:
                with contextlib.suppress(OSError):  # wakes a thread that waits for answers
                    place.engine.channel.shutdown(socket.SHUT_RDWR)
                self._ignore(place)
            self._asked.clear()
            self._fail_calls(PipelineClosed("the pipeline was closed"))
            done.set()

        if self.decide(end):
            pass
        elif self._caller.is_current():
            end()
        else:
            self._caller.call(self._decide, end)
            done.wait(1.0)
        self._closed = True
        if self._receiver is not None:
            self._receiver.close()
            self._receiver.join(1.0)


def _unreadable(header: dict[str, Any], engine: EngineProcess, error: MemoryError) -> dict[str, Any]:
    """In place of an answer in a block that cannot be mapped: its iteration has failed. Other messages are never that large."""
    text = f"the answer of engine {engine.number} cannot be used: {error}"
    return {"a": header["a"], "took": 0, "error": packed(MemoryError(text))}
