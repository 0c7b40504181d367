"""What runs a pool in the parent: no thread, no timer. Whoever waits for a batch does the work that is due.

Answers come through one pipe. They are read into a landing buffer that outlives an interrupt, and everything done with a record can be done
again: a KeyboardInterrupt between any two steps loses nothing.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import select
import signal
import threading
import time
import warnings
from collections import deque
from typing import Any

from .batches import PoolBatch
from .child import STACK_SIGNAL
from .control import (
    CLOSING,
    DISCARD,
    END,
    NEVER,
    PULLED,
    RESTARTS,
    RING,
    SAMPLE,
    SEQUENCE,
    SINCE,
    STATE,
    STATE_SIZE,
    STOPPED,
    TASK_ID,
    Control,
    Layout,
    Ring,
)
from .cuda import check_fork_allowed
from .errors import PoolClosed, WorkerDied, WorkerError, WorkerTimeout, combined, decode_exception
from .interrupts import uninterrupted
from .launch import Born, Ended, ForkLauncher, Launcher, News, Unavailable
from .members import Member, manner_of_death
from .prediction import Prediction, cut
from .records import DONE, DONE_SIZE, FAILED, OK, READY, SLICES, STOP, Done, Task, task_of
from .slots import Slots, ensure_committed
from .source import Source, restartable
from .streams import read_snapshot
from .system import PAGE, Descriptors, make_tokens, up
from .tickets import Answer, Ticket, assembled, error_of
from .worker import Setup
from .writing import read_table

START_METHODS = ("fork", "spawn", "forkserver")
LANDING = 512 * DONE_SIZE
LOOK_EVERY = 64
PIPE_SIZE = 1 << 18
FAILED_STARTS = 3
STACK_SECONDS = 1.0
"""How long a worker that is over time may take to write its stack."""
ASKED_SECONDS = 0.3
"""How long idle workers may take to end when they are asked to."""
BUSY_SECONDS = 0.02
"""The same for others."""


class StreamState:
    """Where a stream is, as far as its worker has answered: what a replacement needs."""

    def __init__(self, source: Source):
        self.pulls = 0
        self.snapshot: bytes | None = None
        self.snapshot_pulls = 0
        self.stopped = NEVER
        self.restartable = restartable(source.callback)
        self.lost: str | None = None  # why it cannot go on
        self.lease: Any = None


class Engine:
    def __init__(
        self,
        sources: list[Source],
        *,
        num_workers: int,
        start_method: str,
        pickler: Any,
        worker_timeout: float | None,
        max_retries: int,
        seed: int | None,
        name: str,
    ):
        _check_arguments(sources, num_workers, start_method, pickler, worker_timeout, max_retries)
        self.sources = sources
        self.num_workers = _useful_workers(sources, num_workers)
        self.start_method = start_method
        self.name = name
        self._pickler = pickler
        self._timeout = worker_timeout
        self._max_retries = max_retries
        self._seed = int.from_bytes(os.urandom(8), "little") if seed is None else seed
        self._pid = os.getpid()
        self._descriptors = Descriptors()
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._pumping = False
        self._waiting = 0
        self._tickets: dict[int, Ticket] = {}
        self._numbers = itertools.count(1)
        self._schemas = itertools.count(1)
        self._predictions = [Prediction(source, self.num_workers, self._schemas) for source in sources]
        self._streams = {i: StreamState(source) for i, source in enumerate(sources) if source.dedicated}
        self._homes = {source: number % self.num_workers for number, source in enumerate(self._streams)}
        self._members: list[Member] = []
        self._launcher: Launcher | None = None
        self._dying: dict[int, Member] = {}  # process id -> worker whose exit status is on its way
        self._statuses: dict[int, int] = {}
        self._landing = bytearray(LANDING)
        self._landing_view = memoryview(self._landing)
        self._kinds = memoryview(self._landing).cast("I")
        self._cursor = 0
        self._backlog: dict[int, deque[Task]] = {}
        self._watched: int | None = None
        self._started = False
        self.closed = False
        self._bytes = 0
        self._overflows = 0
        self._retries = 0
        self._batches = 0

    # ---------------------------------------------------------------------------------------------------------------- start

    def start(self) -> None:
        with self._lock:
            if self.closed:
                raise PoolClosed(f"{self.name} is closed")
            if self._started:
                return
            if self.start_method == "fork":
                check_fork_allowed()
            try:
                self._make_channels()
                self._start_workers()
                self._started = True
                self._make_slots()
            except OSError as error:
                self.close()
                if error.errno == 24:
                    raise OSError(24, f"{self.name} needs about {self._descriptors_needed()} descriptors more (see ulimit -n)") from error
                raise
            except BaseException:
                self.close()
                raise

    def _descriptors_needed(self) -> int:
        return 10 + 2 * self.num_workers

    def _make_channels(self) -> None:
        add = self._descriptors.add
        homes = sorted(set(self._homes.values()))
        self._ring_of = {worker: number for number, worker in enumerate(homes, 1)}
        layout = Layout(self.num_workers, len(self.sources), 1 + len(homes))
        self._memory = add(os.memfd_create(f"asyncdali-{self.name}", os.MFD_CLOEXEC))
        os.ftruncate(self._memory, layout.size)
        results, answers = os.pipe2(os.O_CLOEXEC)
        self._results, self._answers = add(results), add(answers)
        os.set_blocking(self._results, False)
        try:
            fcntl.fcntl(self._answers, 1031, PIPE_SIZE)  # F_SETPIPE_SZ
        except OSError:
            pass  # the default holds enough
        alive, held = os.pipe2(os.O_CLOEXEC)
        self._alive, self._held = add(alive), add(held)
        tokens = [add(make_tokens()) for _ in range(1 + len(homes))]
        self._control = Control(self._memory, layout)
        self._control.header[END] = layout.size
        for block in self._control.streams:
            block[STOPPED] = NEVER
        self._rings = [Ring(self._control, number, token) for number, token in enumerate(tokens)]
        self._backlog = {ring.number: deque() for ring in self._rings}
        self._slots = Slots(self._control)
        self._poll = select.poll()
        self._poll.register(self._results, select.POLLIN)
        self._setup = Setup(
            memory=self._memory, results=self._answers, alive=self._alive, tokens=tokens, workers=self.num_workers, homes=self._homes,
            ring_of=self._ring_of, seed=self._seed, name=self.name, watched=self._timeout is not None, count=len(self.sources),
            sources=list(self.sources),
        )  # fmt: skip

    def _start_workers(self) -> None:
        self._launcher = self._make_launcher()
        self._members = [Member(index, self._control.claims[index]) for index in range(self.num_workers)]
        self._launcher.prepare()
        self._watch_launcher()
        for member in self._members:
            born = self._launcher.start(member.index)
            if born is not None:
                self._welcome(born)
        while not all(member.ready for member in self._members):
            failed = next((member for member in self._members if member.failures), None)
            if failed is not None:
                raise self._start_error(failed)
            unavailable = next((member.gone for member in self._members if member.gone), None)
            if unavailable is not None:
                reported = next((member for member in self._members if member.reported), None)
                if reported is not None:
                    raise self._start_error(reported)
                raise WorkerDied(f"{self.name} cannot start: {unavailable}")
            self._pump(None)

    def _make_launcher(self) -> Launcher:
        if self.start_method == "fork":
            return ForkLauncher(self._setup, self._descriptors)
        from .spawning import make_launcher

        return make_launcher(self.start_method, self._setup, self._descriptors, self._control, self._pickler)

    def _start_error(self, member: Member) -> BaseException:
        what = f"worker {member.index} of {self.name} could not start"
        if member.reported:
            return decode_exception(member.reported, f"{what}; ")
        return WorkerDied(f"{what}: its process {member.gone}")

    def _make_slots(self) -> None:
        """Slots for the batches that the sources will have in work, so that the first ones find them."""
        leases = []
        for prediction, source in zip(self._predictions, self.sources):
            for _ in range(source.prefetch):
                leases.append(self._slots.lend(prediction.slot_size()))
                self._note_parts(leases[-1], prediction)
        self._slots.kept = len(leases)

    def _note_parts(self, lease: Any, prediction: Prediction) -> None:
        lease.extent.parts, lease.extent.per_part = prediction.parts, prediction.per_part
        lease.extent.part_capacity = max(prediction.part_capacity, (prediction.slot_size() - PAGE) // prediction.parts // PAGE * PAGE)

    # --------------------------------------------------------------------------------------------------------------- submit

    def submit(self, source: int, iteration: int, epoch: int) -> Ticket:
        self._check_open()  # before the lock, which in a forked child nobody may ever release
        with self._lock:
            self._check_open()
            asked = self.sources[source]
            prediction = self._predictions[source]
            ring = self._rings[self._ring_of[self._homes[source]]] if asked.dedicated else self._rings[0]
            slices = cut(asked.batch_size, prediction.slices(ring.tail - ring.head))
            ticket = Ticket(next(self._numbers), source, asked, iteration, epoch, slices)
            ticket.ring = ring.number
            lease = ticket.lease = self._slots.lend(prediction.slot_size())
            self._note_parts(lease, prediction)
            self._lay_out(ticket, prediction)
            reason = self._hopeless(ticket)
            if reason is not None:
                ticket.answers = {number: Answer(None, reason) for number in range(len(slices))}
                return ticket
            tail = ring.tail
            self._tickets[ticket.number] = ticket
            try:
                self._enqueue(ring, ticket.tasks)
            except BaseException:
                if ring.tail == tail:
                    self._tickets.pop(ticket.number, None)  # no worker has seen it
                else:
                    self.cancel(ticket)
                raise
            return ticket

    def _check_open(self) -> None:
        if self.closed:
            raise PoolClosed(f"{self.name} is closed")
        if not self._started:
            raise PoolClosed(f"{self.name} has not been started")
        if self._descriptors.forked:
            raise PoolClosed(f"{self.name} belongs to process {self._pid}; this one was forked from it")

    def _lay_out(self, ticket: Ticket, prediction: Prediction) -> None:
        """Write the schema into the slot, and make the tasks."""
        lease, schema = ticket.lease, prediction.schema
        assert lease is not None
        extent = lease.extent
        ticket.schema = schema
        if schema is not None and extent.schema != schema.number:
            ensure_committed(self._memory, extent, schema.end)
            schema.write(extent.mapping.bytes)
            extent.schema = schema.number
        number = 0 if schema is None else schema.number
        end = prediction.end
        batch = ticket.source.batch_size
        area = (extent.size - end) // batch
        now = time.monotonic_ns()
        for place, (first, count) in enumerate(ticket.slices):
            start = end + first * area
            task = Task(
                1, ticket.source_index, task_of(ticket.number, place), first, count, ticket.iteration, ticket.epoch, extent.offset,
                extent.size, start, area * count, number, now,
            )  # fmt: skip
            ticket.tasks.append(task)

    def _enqueue(self, ring: Ring, tasks: list[Task]) -> None:
        backlog = self._backlog[ring.number]
        if backlog or ring.room() < len(tasks):
            backlog.extend(tasks)
            return
        for place, task in enumerate(tasks):
            ring.write(place, task)
        try:
            ring.publish(len(tasks))
        finally:
            os.eventfd_write(ring.tokens, len(tasks))  # a token too many does no harm

    def _flush_backlog(self) -> None:
        for number, backlog in self._backlog.items():
            ring = self._rings[number]
            while backlog and ring.room():
                with uninterrupted():  # published once
                    ring.write(0, backlog.popleft())
                    ring.publish(1)
                    os.eventfd_write(ring.tokens, 1)

    def _hopeless(self, ticket: Ticket) -> BaseException | None:
        """Why no worker will ever run this."""
        if ticket.source.dedicated:
            lost = self._streams[ticket.source_index].lost
            if lost is not None:
                return WorkerDied(lost)
            home = self._members[self._homes[ticket.source_index]]
            return WorkerDied(f"{ticket.source.name}: {home.gone}") if home.gone else None
        if all(member.gone for member in self._members):
            return WorkerDied(f"{self.name} has no worker left: {self._members[0].gone}")
        return None

    # -------------------------------------------------------------------------------------------------------------- receive

    def receive(self, ticket: Ticket, timeout: float | None = None) -> PoolBatch:
        if ticket.cancelled:
            raise WorkerError(f"{ticket!r} was cancelled")
        if not ticket.complete:
            self._wait_for(ticket, timeout)
        if ticket.number % LOOK_EVERY == 0:
            self._look()
        error = error_of(ticket, [member.pid for member in self._members])
        if error is not None:
            raise error
        batch, key = assembled(ticket)
        if not ticket.learnt:
            ticket.learnt = True
            self._learn(ticket, batch, key)
        return batch

    def ready(self, ticket: Ticket) -> bool:
        if not (ticket.complete or ticket.cancelled):
            self._check_open()
            self._look()
        return ticket.complete or ticket.cancelled

    def _look(self) -> None:
        """Attend to what happened, without waiting. A death is seen by whoever waits; with enough results nobody may have to."""
        with self._lock:
            if not self._pumping and not self.closed:
                self._attend(self._poll.poll(0))

    def _wait_for(self, ticket: Ticket, timeout: float | None) -> None:
        limit = None if timeout is None else time.monotonic() + timeout
        self._check_open()
        with self._lock:
            while not ticket.complete:
                self._check_open()
                left = None if limit is None else max(0.0, limit - time.monotonic())
                if self._pumping:  # another thread waits for all of us
                    self._waiting += 1
                    try:
                        self._changed.wait(left)
                    finally:
                        self._waiting -= 1
                else:
                    self._pump(left)
                if not ticket.complete and limit is not None and time.monotonic() >= limit:
                    raise TimeoutError(f"{ticket!r} did not arrive within {timeout} s")

    def _learn(self, ticket: Ticket, batch: PoolBatch, key: list[Any] | None) -> None:
        prediction = self._predictions[ticket.source_index]
        needed, size, busy = 0.0, 0, 0
        for answer in ticket.answers.values():
            assert answer is not None and answer.done is not None
            done = answer.done
            size += done.bytes
            busy += done.busy
            if done.needed and done.count:
                needed = max(needed, done.needed / done.count)
        self._bytes += size
        self._batches += 1
        prediction.took(busy, batch.count)
        if batch.count:
            prediction.learn(key or [], key is None, needed)

    # --------------------------------------------------------------------------------------------------- waiting and reading

    def _pump(self, timeout: float | None) -> None:
        """Do what is due; if nothing is, wait for something. Called with the lock held once."""
        self._pumping = True
        try:
            if self._drain():
                return
            self._look_after_hung()
            left = self._until_next_look(timeout)
            try:
                self._lock.release()  # within the try: an interrupt right after it must find the lock taken again
                events = self._poll.poll(None if left is None else max(0, left * 1000))
            finally:
                self._lock.acquire()
            if self.closed:
                return
            self._attend(events)
        finally:
            self._pumping = False
            if self._waiting:
                self._changed.notify_all()

    def _attend(self, events: list[tuple[int, int]]) -> None:
        self._drain()
        for descriptor, _ in events:
            if descriptor == self._results:
                continue
            if self._launcher is not None and descriptor == self._launcher.descriptor:
                with uninterrupted():  # news is told once
                    self._hear(self._launcher.collect())
                    self._watch_launcher()
            else:
                self._notice_death(descriptor)
        self._look_after_hung()

    def _drain(self) -> bool:
        """Read and note all answers that are there."""
        progress = False
        while True:
            self._read_landing()
            end = self._cursor
            if end:
                self._landing[:end] = bytes(end)
                self._cursor = 0
                progress = True
                if end < LANDING:
                    self._flush_backlog()
                    return True
            try:
                os.readv(self._results, [self._landing_view])
            except BlockingIOError:
                return progress

    def _read_landing(self) -> None:
        """Note the records that have landed. They are removed all together, so that an interrupt cannot lose one."""
        while self._cursor < LANDING and self._kinds[self._cursor // 4]:
            self._note(Done._make(DONE.unpack_from(self._landing, self._cursor)))
            self._cursor += DONE_SIZE

    def _note(self, done: Done) -> None:
        if done.kind == READY:
            member = self._members[done.worker]
            member.ready, member.failures = True, 0
            return
        if done.kind == FAILED:
            self._members[done.worker].reported = read_table(os.pread(self._memory, done.table_size, done.table))[2]
            return
        ticket = self._tickets.get(done.task // SLICES)
        number = done.task % SLICES
        if ticket is None:
            return
        if number in ticket.answers:  # an interrupt came in between
            self._settle(ticket, number, ticket.answers[number])
            return
        answer = Answer(done)
        extents = self._read_answer(answer, done) if done.table else []
        if ticket.source.dedicated:
            self._follow_stream(ticket, answer)
        if not extents:
            self._settle(ticket, number, answer)
            return
        with uninterrupted():  # memory changes hands once
            try:
                self._take_over(answer, extents)
            except Exception as error:
                answer.error = combined(type(error), error.args, f"{ticket.source.name}, {ticket.where(0)}: {error}")
            self._settle(ticket, number, answer)

    def _read_answer(self, answer: Answer, done: Done) -> list[tuple[int, int]]:
        extents, outputs, answer.data = read_table(os.pread(self._memory, done.table_size, done.table))
        if done.kind == OK:
            answer.outputs = outputs
        return extents

    def _take_over(self, answer: Answer, extents: list[tuple[int, int]]) -> None:
        self._overflows += len(extents)
        for offset, size in extents:
            if size > 0:
                answer.leases.append(self._slots.take_over(offset, size))
            else:
                self._slots.reclaim(offset, -size)

    def _settle(self, ticket: Ticket, number: int, answer: Answer | None) -> None:
        ticket.answers[number] = answer
        if ticket.complete:
            self._tickets.pop(ticket.number, None)

    def _follow_stream(self, ticket: Ticket, answer: Answer) -> None:
        state, done = self._streams[ticket.source_index], answer.done
        assert done is not None
        state.pulls = done.pulls
        state.stopped = ticket.epoch if done.kind == STOP else NEVER
        if done.kind == OK and answer.data:
            state.snapshot, state.snapshot_pulls = read_snapshot(answer.data)[1], done.pulls

    # ---------------------------------------------------------------------------------------------------------------- cancel

    def cancel(self, ticket: Ticket) -> None:
        with self._lock, uninterrupted():
            if ticket.cancelled:
                return
            ticket.cancelled = True
            if self.closed or ticket.complete:
                return
            tasks = ticket.task_range
            backlog = self._backlog[ticket.ring]
            dropped = {task.task for task in backlog if task.task in tasks}
            if dropped:
                self._backlog[ticket.ring] = deque(task for task in backlog if task.task not in dropped)
            dropped |= self._rings[ticket.ring].withdraw(tasks)
            for task in dropped:
                self._settle(ticket, task % SLICES, None)

    # ----------------------------------------------------------------------------------------------------------- processes

    def _watch_launcher(self) -> None:
        """The helper's socket is another one after the helper died."""
        assert self._launcher is not None
        now = self._launcher.descriptor
        if now == self._watched:
            return
        if self._watched is not None:
            self._poll.unregister(self._watched)
        self._watched = now
        if now is not None:
            self._poll.register(now, select.POLLIN)

    def _hear(self, news: list[News]) -> None:
        for item in news:
            if isinstance(item, Born):
                self._welcome(item)
            elif isinstance(item, Ended):
                member = self._dying.pop(item.pid, None)
                if member is None:
                    self._statuses[item.pid] = item.status
                else:
                    self._bury(member, item.status)
            elif isinstance(item, Unavailable):
                for member in self._members:
                    if not member.alive:
                        self._give_up(member, item.reason)

    def _welcome(self, born: Born) -> None:
        member = self._members[born.worker]
        member.pid, member.pidfd, member.alive = born.pid, born.pidfd, True  # it may have said already that it is ready
        self._poll.register(born.pidfd, select.POLLIN)

    def _notice_death(self, pidfd: int) -> None:
        member = next((member for member in self._members if member.alive and member.pidfd == pidfd), None)
        if member is None or member.pid in self._dying:
            return
        with uninterrupted():
            self._poll.unregister(pidfd)
            assert self._launcher is not None
            status = self._statuses.pop(member.pid, None)
            if status is None:
                status = self._launcher.status(member.pid)
            if status is None:
                self._dying[member.pid] = member
            else:
                self._bury(member, status)

    def _bury(self, member: Member, status: int) -> None:
        """A worker is dead for sure: take up what it left, and ask for another."""
        with uninterrupted():
            self._drain()
            self._descriptors.close(member.pidfd)
            member.alive, member.pidfd = False, -1
            manner = manner_of_death(status)
            ticket, place = self._unfinished(member)
            for extent in member.extents():
                self._slots.reclaim(*extent)
            sample = member.block[SAMPLE]
            timed_out = member.condemned != 0 and ticket is not None and ticket.tasks[place].task == member.condemned
            member.clear()
            self._prepare_streams(member, manner)
            if ticket is not None:
                self._retry(ticket, place, sample, member, manner, timed_out)
            for number in {0, self._ring_of.get(member.index, 0)}:
                ring = self._rings[number]
                os.eventfd_write(ring.tokens, max(1, ring.tail - ring.head))  # for those it may have taken with it
            member.condemned = 0
            member.failures += not member.ready
            member.ready = False
            if not self._started and member.failures:
                member.gone = manner
                return
            self._replace(member, manner)

    def _unfinished(self, member: Member) -> tuple[Ticket | None, int]:
        """The slice that a dead worker had taken and not answered."""
        block = member.block
        task = block[TASK_ID]
        ticket = self._tickets.get(task // SLICES) if task else None
        if ticket is None or task % SLICES in ticket.answers:
            return None, 0
        ring = self._rings[block[RING]]
        with ring.locked():
            taken = block[SEQUENCE] < ring.head  # else it died between the two steps of taking, and somebody else will take it
        return (ticket, task % SLICES) if taken else (None, 0)

    def _retry(self, ticket: Ticket, place: int, sample: int, member: Member, manner: str, timed_out: bool) -> None:
        what = f"{ticket.source.name}, {ticket.where(sample)}"
        if timed_out:
            message = (
                f"{what}: the callable took longer than {self._timeout} s (worker_timeout); worker {member.index}, process {member.pid}, "
                f"was killed. Its stack:\n{self._control.stack_text() or '(it wrote none)'}"
            )
            self._settle(ticket, place, Answer(None, WorkerTimeout(message)))
            return
        if ticket.cancelled:
            self._settle(ticket, place, None)
            return
        lost = self._streams[ticket.source_index].lost if ticket.source.dedicated else None
        if lost is not None:
            self._settle(ticket, place, Answer(None, WorkerDied(lost)))
            return
        condemned_by_another = member.condemned != 0
        deaths = ticket.deaths[sample] = ticket.deaths.get(sample, 0) + (not condemned_by_another)
        if deaths > self._max_retries:
            message = (
                f"{what}: worker {member.index}, process {member.pid}, {manner} while it ran this; so did the others that tried "
                f"({deaths} in all, max_retries={self._max_retries})"
            )
            self._settle(ticket, place, Answer(None, WorkerDied(message)))
            return
        self._retries += 1
        ring = self._rings[ticket.ring]
        if ticket.source.dedicated:
            ring.put_back(ticket.tasks[place])
        else:
            self._enqueue(ring, [ticket.tasks[place]])

    def _prepare_streams(self, member: Member, manner: str) -> None:
        """Tell the replacement where each stream of this worker is to go on."""
        for source, home in self._homes.items():
            if home == member.index:
                self._prepare_stream(source, member, manner)

    def _prepare_stream(self, source: int, member: Member, manner: str) -> None:
        state, block, asked = self._streams[source], self._control.streams[source], self.sources[source]
        block[STOPPED], block[PULLED] = state.stopped, state.pulls
        if state.snapshot is not None:
            size = len(state.snapshot)
            state.lease = self._slots.lend(up(size, PAGE))
            state.lease.extent.schema = 0
            state.lease.extent.mapping.bytes[:size] = memoryview(state.snapshot)
            block[STATE], block[STATE_SIZE] = state.lease.extent.offset, size
            block[DISCARD] = state.pulls - state.snapshot_pulls
        elif state.pulls == 0 or state.restartable:
            block[DISCARD] = state.pulls
        elif state.lost is None:
            state.lost = (
                f"{asked.name}: worker {member.index}, process {member.pid}, {manner}, and with it the position in this stream: "
                f"{type(asked.callback).__name__} is an iterator that cannot be walked through again and has no state_dict(). A list, a "
                f"generator function, or an object with state_dict() and load_state_dict() could go on"
            )
            self._fail_source(source, state.lost)

    def _fail_source(self, source: int, reason: str) -> None:
        """Tickets of a source that nobody can run any more."""
        for ticket in [ticket for ticket in self._tickets.values() if ticket.source_index == source]:
            self._fail_unstarted(ticket, reason)

    def _fail_unstarted(self, ticket: Ticket, reason: str) -> None:
        tasks = ticket.task_range
        backlog = self._backlog[ticket.ring]
        dropped = {task.task for task in backlog if task.task in tasks}
        self._backlog[ticket.ring] = deque(task for task in backlog if task.task not in dropped)
        dropped |= self._rings[ticket.ring].withdraw(tasks)
        for task in dropped:
            self._settle(ticket, task % SLICES, None if ticket.cancelled else Answer(None, WorkerDied(reason)))

    def _replace(self, member: Member, manner: str) -> None:
        if member.failures >= FAILED_STARTS:
            self._give_up(member, f"worker {member.index} {manner} before it was ready, {member.failures} times in a row")
            return
        member.incarnation += 1
        member.block[RESTARTS] += 1
        member.reported = b""
        assert self._launcher is not None
        try:
            self._launcher.replace(member.index, member.incarnation)
            self._hear(self._launcher.collect())
            self._watch_launcher()
        except Exception as error:
            self._give_up(member, f"worker {member.index} {manner} and cannot be replaced: {type(error).__name__}: {error}")

    def _give_up(self, member: Member, reason: str) -> None:
        """This worker's place stays empty."""
        member.gone = reason
        for ticket in list(self._tickets.values()):
            hopeless = self._hopeless(ticket)
            if hopeless is not None:
                self._fail_unstarted(ticket, str(hopeless))

    # ---------------------------------------------------------------------------------------------------------------- hung

    def _until_next_look(self, timeout: float | None) -> float | None:
        """How long to wait: until the caller's limit, or until a callable is over time."""
        if self._timeout is None:
            return timeout
        limits = [] if timeout is None else [timeout]
        now = time.monotonic()
        for member in self._members:
            if not member.alive:
                continue
            since = member.block[SINCE]
            if member.condemned:
                limits.append(member.kill_at - now)
            elif since and member.block[TASK_ID]:
                limits.append(since / 1e9 + self._timeout - now)
        limits.append(self._timeout)  # a worker that is idle now may begin meanwhile
        return max(0.0, min(limits)) + 0.001

    def _look_after_hung(self) -> None:
        """Have a worker that is over time write its stack, which ends it; if it does not end, kill it."""
        if self._timeout is None:
            return
        now = time.monotonic()
        for member in self._members:
            if member.condemned and member.alive and now >= member.kill_at:
                _signal(member, signal.SIGKILL)
        if any(member.condemned for member in self._members):
            return  # one at a time: there is one place for the text
        for member in self._members:
            since, task = member.block[SINCE], member.block[TASK_ID]
            if member.alive and since and task and now - since / 1e9 >= self._timeout:
                with uninterrupted():
                    os.lseek(self._memory, self._control.layout.stack, os.SEEK_SET)
                    member.condemned, member.kill_at = task, now + STACK_SECONDS
                    _signal(member, STACK_SIGNAL)
                return

    # ----------------------------------------------------------------------------------------------------- statistics, close

    def pids(self) -> list[int]:
        return [member.pid for member in self._members if member.alive]

    def statistics(self) -> dict[str, Any]:
        with self._lock:
            extents = self._slots.extents() if self._started and not self.closed else []
            workers = [member.statistics() for member in self._members] if self._started and not self.closed else []
            slots = [extent for extent in extents if extent.part_capacity]
            capacities = [extent.part_capacity for extent in slots for _ in range(extent.parts)]
            return {
                "workers": workers,
                "queue_wait_seconds": sum(worker["queue_wait_seconds"] for worker in workers),
                "batches": self._batches,
                "bytes": self._bytes,
                "restarts": sum(worker["restarts"] for worker in workers),
                "retries": self._retries,
                "slots": len(slots),
                "capacities": capacities,
                "per_sample_capacities": [extent.part_capacity // extent.per_part for extent in slots for _ in range(extent.parts)],
                "reserved_bytes": sum(extent.size for extent in extents),
                "used_bytes": os.fstat(self._memory).st_blocks * 512 if extents else 0,
                "overflows": self._overflows,
                "outstanding": len(self._tickets),
            }

    def close(self) -> None:
        if self.closed or os.getpid() != self._pid:
            return
        locked = self._lock.acquire(timeout=1)  # who waits for a batch does not hold it
        try:
            self.closed = True
            self._end_workers()
            if self._launcher is not None:
                self._launcher.close()
            self._descriptors.close_all()
            if self._started:
                self._slots.close()
            self._tickets.clear()
        finally:
            if locked:
                self._lock.release()

    def _end_workers(self) -> None:
        """Ask all at once, then kill all at once."""
        living = [member for member in self._members if member.alive]
        if not living:
            return
        self._control.header[CLOSING] = 1
        for ring in self._rings:
            os.eventfd_write(ring.tokens, 4 * len(living))
        idle = [member for member in living if member.ready and not member.block[TASK_ID]]
        _wait_for_end(idle, ASKED_SECONDS)
        remaining = _wait_for_end(living, BUSY_SECONDS)
        for member in remaining:
            _signal(member, signal.SIGKILL)
        _wait_for_end(remaining, 5)
        for member in living:
            if self._launcher is not None and member.pid not in self._dying:
                self._launcher.status(member.pid)
            member.alive = False


def _signal(member: Member, number: int) -> None:
    try:
        signal.pidfd_send_signal(member.pidfd, number)
    except (ProcessLookupError, OSError):
        pass  # it is gone already


def _wait_for_end(members: list[Member], seconds: float) -> list[Member]:
    """Those that have not ended within that time."""
    remaining = {member.pidfd: member for member in members}
    poll = select.poll()
    for pidfd in remaining:
        poll.register(pidfd, select.POLLIN)
    limit = time.monotonic() + seconds
    while remaining and (left := limit - time.monotonic()) > 0:
        for pidfd, _ in poll.poll(left * 1000):
            poll.unregister(pidfd)
            del remaining[pidfd]
    return list(remaining.values())


def _useful_workers(sources: list[Source], num_workers: int) -> int:
    """Streams alone do not need more workers than there are streams."""
    if num_workers <= len(sources) or not all(source.dedicated for source in sources):
        return num_workers
    warnings.warn(
        f"{num_workers} workers were asked for, but each of the {len(sources)} sources is an iterable or a generator function, which one "
        f"worker walks through. There will be run only {len(sources)} worker{'s' if len(sources) > 1 else ''}",
        Warning,
        stacklevel=4,
    )
    return len(sources)


def _check_arguments(sources: list[Source], num_workers: int, start_method: str, pickler: Any, timeout: float | None, retries: int) -> None:
    if not sources:
        raise ValueError("a pool needs at least one source")
    for source in sources:
        source.check()
    if isinstance(num_workers, bool) or not isinstance(num_workers, int) or num_workers < 1:
        raise ValueError(f"num_workers is {num_workers!r}; a positive int is needed")
    if start_method not in START_METHODS:
        raise ValueError(f"start_method is {start_method!r}; allowed are {', '.join(map(repr, START_METHODS))}")
    if start_method == "fork" and pickler is not None:
        raise ValueError("a pickler is of no use with start_method='fork', where nothing is pickled")
    if timeout is not None and timeout <= 0:
        raise ValueError(f"worker_timeout is {timeout}; it must be positive, or None")
    if retries < 0:
        raise ValueError(f"max_retries is {retries}; it cannot be negative")

