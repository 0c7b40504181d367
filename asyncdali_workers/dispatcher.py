"""Runs a pool in the parent, without a thread or a timer: a thread that waits for a batch does the work that is due.

One lock guards all mutable state. A thread releases the lock while it waits in `poll`, so other threads may submit. `_pumping` says that a
thread is there; the others then wait for the condition `_changed`. Answers come through one pipe, see landing.py.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from functools import partial
from typing import Any

from .arguments import Settings
from .batches.answers import AnswerReader
from .batches.batches import PoolBatch
from .batches.landing import Landing
from .batches.outstanding import Outstanding
from .batches.positions import Positions
from .batches.prediction import Prediction, cut
from .batches.queues import Queues
from .batches.tasks import lay_out, learn, make_slots, note_parts
from .batches.tickets import SliceOutcome, Ticket, assembled, error_of
from .channels import Channels
from .counts import Counts, statistics
from .cuda import check_fork_allowed
from .errors import PoolClosed, WorkerDied, WorkerError
from .interrupts import uninterrupted
from .parts import Parts
from .processes.closing import end_workers
from .processes.greenlets import refuse_greenlets
from .processes.launch import Launcher, launcher_for
from .processes.losses import Losses
from .processes.members import Member
from .processes.overtime import Overtime
from .processes.replacement import WorkerProcesses
from .shared.system import Descriptors
from .source import Source

LOOK_EVERY = 64


class Dispatcher:
    """Public methods may be called on any thread and take the lock themselves. The other methods say how they are called."""

    def __init__(self, sources: list[Source], settings: Settings):
        self._settings = settings = settings.settled(sources)
        self.sources = sources
        self.num_workers, self.start_method, self.name = settings.num_workers, settings.start_method, settings.name
        self._pid = os.getpid()
        self._descriptors = Descriptors()
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._pumping = False
        self._waiting = 0
        self._numbers = itertools.count(1)
        schemas = itertools.count(1)
        self._predictions = [Prediction(source, self.num_workers, schemas) for source in sources]
        self._positions = Positions(sources, self.num_workers)
        self._tickets: dict[int, Ticket] = {}
        self._members: list[Member] = []
        self._counts = Counts()
        self._launcher: Launcher | None = None
        self._processes: WorkerProcesses | None = None
        self._started = False
        self.closed = False

    # ---------------------------------------------------------------------------------------------------------------- start

    def start(self) -> None:
        with self._lock:
            if self.closed:
                raise PoolClosed(f"{self.name} is closed")
            if self._started:
                return
            refuse_greenlets(processes=True)
            if self.start_method == "fork":
                check_fork_allowed()
            try:
                with uninterrupted():  # every descriptor must reach the object that closes it
                    self._channels = Channels(self._descriptors, self._settings, self.sources, self._positions.homes)
                self._start_workers(self._channels)
                self._started = True
                make_slots(self._slots, self.sources, self._predictions)
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

    def _start_workers(self, channels: Channels) -> None:
        """Return when all workers are ready. Needs the lock."""
        self._launcher = launcher_for(self.start_method, channels.setup, self._descriptors, channels.control, self._settings.pickler)
        self._members = [Member(index, block) for index, block in enumerate(channels.control.claims)]
        processes = self._assemble(channels, self._launcher)
        with uninterrupted():  # every process must reach the object that ends it
            processes.begin()
        while not processes.all_ready():
            self._pump(None)
        processes.replacing = True

    def _assemble(self, channels: Channels, launcher: Launcher) -> WorkerProcesses:
        """Make the parts of the pool. None of them refers to the engine, so a closed pool is freed without the garbage collector."""
        self._memory, self._slots, self._poll, self._results = channels.memory, channels.slots, channels.poll, channels.results
        self._rings = [channels.ring_for(self._positions.homes.get(source)) for source in range(len(self.sources))]
        self._queues = Queues(channels.rings)
        self._outstanding = Outstanding(self._tickets, self._queues)
        parts = Parts(self._members, channels, self._descriptors, self._queues, self._outstanding, self._positions, self._counts)
        self._landing = Landing(channels.results, AnswerReader(parts).note, self._queues)
        self._overtime = Overtime(self._settings.worker_timeout, self._members, channels)
        self._processes = WorkerProcesses(self.name, parts, launcher, Losses(parts, self._landing, self._settings))
        return self._processes

    # --------------------------------------------------------------------------------------------------------------- submit

    def submit(self, source: int, iteration: int, epoch: int) -> Ticket:
        self._check_open()  # before taking the lock, which may never be released in a forked child
        with self._lock:
            self._check_open()
            asked = self.sources[source]
            prediction = self._predictions[source]
            ring = self._rings[source]
            slices = cut(asked.batch_size, prediction.slices(ring.tail - ring.head))
            ticket = Ticket(next(self._numbers), source, asked, iteration, epoch, slices)
            ticket.ring = ring.number
            lease = ticket.lease = self._slots.lend(prediction.slot_size())
            note_parts(lease, prediction)
            lay_out(ticket, lease, prediction, self._memory)
            assert self._processes is not None
            self._processes.fill_vacancies(urgent=False)
            reason = self._processes.hopeless(ticket)
            if reason is not None:
                self._processes.fill_vacancies(urgent=True)
                reason = self._processes.hopeless(ticket)
            if reason is not None:
                ticket.answers = {number: SliceOutcome(None, partial(WorkerDied, reason)) for number in range(len(slices))}
                return ticket
            tail = ring.tail
            self._tickets[ticket.number] = ticket
            try:
                self._queues.put(ring, ticket.tasks)
            except BaseException:
                if ring.tail == tail:
                    self._tickets.pop(ticket.number, None)  # no worker has seen it
                else:
                    self.cancel(ticket)
                raise
            return ticket

    def _check_open(self) -> None:
        """Called with or without the lock."""
        if self.closed:
            raise PoolClosed(f"{self.name} is closed")
        if not self._started:
            raise PoolClosed(f"{self.name} has not been started")
        if self._descriptors.forked:
            raise PoolClosed(f"{self.name} belongs to process {self._pid}; this one was forked from it")

    def cancel(self, ticket: Ticket) -> None:
        with self._lock, uninterrupted():
            if ticket.cancelled:
                return
            ticket.cancelled = True
            if self.closed or ticket.complete:
                return
            self._outstanding.withdraw(ticket)

    # -------------------------------------------------------------------------------------------------------------- receive

    def receive(self, ticket: Ticket, timeout: float | None = None) -> PoolBatch:
        """The lock is held only while waiting. The calling thread assembles the batch of a complete ticket itself."""
        if ticket.cancelled:
            raise WorkerError(f"{ticket!r} was cancelled")
        if not ticket.complete:
            self._wait_for(ticket, timeout)
        if ticket.number % LOOK_EVERY == 0:
            self._look()
        error = error_of(ticket, [member.pid for member in self._members])
        if error is not None:
            try:
                raise error
            finally:
                del error  # its traceback holds this frame: the cycle would keep the callers and the pool alive
        batch, key = assembled(ticket)
        if not ticket.learnt:
            ticket.learnt = True
            learn(ticket, batch, key, self._predictions[ticket.source_index], self._counts)
        return batch

    def ready(self, ticket: Ticket) -> bool:
        if not (ticket.complete or ticket.cancelled):
            self._check_open()
            self._look()
        return ticket.complete or ticket.cancelled

    # -------------------------------------------------------------------------------------------------------------- waiting

    def _look(self) -> None:
        """Process pending events without waiting; takes the lock. Otherwise a death could go unnoticed while results are plentiful."""
        with self._lock:
            if not self._pumping and not self.closed:
                self._attend(self._poll.poll(0))

    def _wait_for(self, ticket: Ticket, timeout: float | None) -> None:
        """Takes the lock."""
        limit = None if timeout is None else time.monotonic() + timeout
        self._check_open()
        with self._lock:
            while not ticket.complete:
                self._check_open()
                left = None if limit is None else max(0.0, limit - time.monotonic())
                if self._pumping:  # another thread receives for all threads
                    self._waiting += 1
                    try:
                        self._changed.wait(left)
                    finally:
                        self._waiting -= 1
                else:
                    self._pump(left)
                if not ticket.complete and limit is not None and time.monotonic() >= limit:
                    raise TimeoutError(f"{ticket!r} did not arrive within {timeout} s")

    def _pump(self, timeout: float | None) -> None:
        """Do the work that is due; if there is none, wait for an event. Called with the lock held once."""
        self._pumping = True
        try:
            if self._landing.drain():
                return
            self._overtime.look_after_hung()
            left = self._overtime.until_next_look(timeout)
            try:
                self._lock.release()  # inside the try: after an interrupt at this point the lock must be taken again
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
        """Needs the lock."""
        self._landing.drain()
        for descriptor, _ in events:
            if descriptor != self._results:
                assert self._processes is not None
                self._processes.attend(descriptor)
        self._overtime.look_after_hung()

    # ----------------------------------------------------------------------------------------------------- statistics, close

    def pids(self) -> list[int]:
        return [member.pid for member in self._members if member.alive]

    def statistics(self) -> dict[str, Any]:
        with self._lock:
            if not self._started or self.closed:
                return statistics(self._counts, [], [], -1, len(self._tickets))
            return statistics(self._counts, self._members, self._slots.extents(), self._memory, len(self._tickets))

    def close(self) -> None:
        if os.getpid() != self._pid:
            return
        with uninterrupted():  # an interrupt would leave the pool half closed
            if not self.closed:
                self._close()

    def _close(self) -> None:
        locked = self._lock.acquire(timeout=1)  # a thread that waits for a batch has released the lock
        try:
            self.closed = True
            if self._processes is not None:
                end_workers(self._members, self._processes, self._channels)
            if self._launcher is not None:
                self._launcher.close()
            self._descriptors.close_all()
            if self._started:
                self._slots.close()
            self._tickets.clear()
        finally:
            if locked:
                self._lock.release()
