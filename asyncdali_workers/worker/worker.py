"""The main loop of a worker: take a task, run it, answer, until a message ends it."""

from __future__ import annotations

import os
import select
import time
from dataclasses import dataclass, field
from typing import Any

from ..errors import encode_exception
from ..shared.control import BUSY, CLOSING, EXTENTS, NOTED_EXTENTS, PID, SAMPLES, SINCE, TASK_ID, TASKS, WAIT, Control, Layout, Ring
from ..shared.records import DONE, DONE_SIZE, ERROR, FAILED, OK, READY, STOP, Task
from ..shared.schema import Expected, read_schema
from ..shared.system import take_token
from ..source import Source
from .callbacks import BatchRunner, Failure, Runner, SampleRunner, StreamRunner
from .writing import Area, Arena, write_table

_PADDING = bytes(DONE_SIZE - DONE.size)


@dataclass
class WorkerSetup:
    """The data that workers need, equal for all workers of a pool. Descriptors have the same numbers in every process of a pool."""

    memory: int
    results: int
    alive: int  # a pipe that hangs up when the parent is gone
    tokens: list[int]  # tokens of the general ring, then of the dedicated rings
    workers: int
    homes: dict[int, int]  # stream source -> its worker
    ring_of: dict[int, int]  # worker -> its dedicated ring
    seed: int
    name: str
    watched: bool  # whether there is a worker_timeout
    count: int  # number of sources
    sources: list[Source | None] = field(default_factory=list)

    @property
    def layout(self) -> Layout:
        return Layout(self.workers, self.count, len(self.tokens))

    def descriptors(self) -> frozenset[int]:
        return frozenset((self.memory, self.results, self.alive, *self.tokens))

    def runs(self, source: int, worker: int) -> bool:
        return self.homes.get(source, worker) == worker


class Worker:
    """One worker process."""

    def __init__(self, setup: WorkerSetup, index: int, incarnation: int):
        self.setup, self.index = setup, index
        self.pid = os.getpid()
        self.control = Control(setup.memory, setup.layout)
        self.claim = self.control.claims[index]
        self.arena = Arena(self.control)
        self.rings = [Ring(self.control, 0, setup.tokens[0])]
        if index in setup.ring_of:
            number = setup.ring_of[index]
            self.rings.insert(0, Ring(self.control, number, setup.tokens[number]))  # its own ring has priority
        self._poll = select.poll()
        for ring in self.rings:
            self._poll.register(ring.tokens, select.POLLIN)
        self._runners: dict[int, Runner] = {}
        self._schemas: dict[int, list[Expected | None]] = {}
        self.claim[PID] = self.pid

    def serve(self) -> None:
        self._answer(READY, 0, 0)
        while (task := self._next_task()) is not None:
            self._work(task)

    def _next_task(self) -> Task | None:
        header = self.control.header
        while not header[CLOSING]:
            for ring in self.rings:
                if take_token(ring.tokens):
                    task = ring.claim(self.claim)
                    if task is not None:
                        return task
                    break
            else:
                self._poll.poll()
        return None

    def _work(self, task: Task) -> None:
        claim = self.claim
        start = time.monotonic_ns()
        claim[SINCE] = start
        claim[WAIT] += start - task.submitted
        self.arena.extents.clear()
        try:
            written = self._runner(task.source).run(task, self._schema(task))
        except Failure as failure:
            self._check_identity()
            self._fail(task, failure, start)
        except BaseException as error:
            self._check_identity()
            self._fail(task, Failure(error, task.first, f"samples {task.first}.. of iteration {task.iteration}"), start)
        else:
            count, table, table_size, size, needed, pulls = written
            busy = time.monotonic_ns() - start
            claim[SAMPLES] += count
            self._count(busy)
            self._answer(OK, task.task, count, table, table_size, busy, size, needed, 0, pulls)
        claim[SINCE] = 0
        if claim[EXTENTS]:
            for word in range(EXTENTS, EXTENTS + 2 * NOTED_EXTENTS):
                claim[word] = 0
        claim[TASK_ID] = 0

    def _count(self, busy: int) -> None:
        """Called before the answer, so that the count is right when the batch arrives."""
        self.claim[TASKS] += 1
        self.claim[BUSY] += busy

    def _check_identity(self) -> None:
        """A callable has forked and its child failed. The child is no worker and reports nothing."""
        if os.getpid() != self.pid:
            os._exit(0)

    def _runner(self, source: int) -> Runner:
        found = self._runners.get(source)
        if found is None:
            asked = self.setup.sources[source]
            assert asked is not None
            clock = time.monotonic_ns if self.setup.watched else None
            if asked.kind == "stream":
                found = StreamRunner(asked, self.arena, self.claim, clock, self.control.streams[source])
            else:
                kind = SampleRunner if asked.kind == "samples" else BatchRunner
                found = kind(asked, self.arena, self.claim, clock)
            self._runners[source] = found
        return found

    def _schema(self, task: Task) -> list[Expected | None] | None:
        if not task.schema:
            return None
        found = self._schemas.get(task.schema)
        if found is None:
            if len(self._schemas) > 256:
                self._schemas.clear()
            found = self._schemas[task.schema] = read_schema(self.arena.at(task.slot, task.capacity).bytes)
        return found

    def _fail(self, task: Task, failure: Failure, start: int) -> None:
        busy = time.monotonic_ns() - start
        self._count(busy)
        pulls = self._runners[task.source].pulls() if task.source in self._runners else 0
        if isinstance(failure.error, StopIteration):
            self._answer(STOP, task.task, 0, 0, 0, busy, 0, 0, failure.sample, pulls)
            return
        data = encode_exception(failure.error, failure.where)
        table, table_size = self._write_error(task, data)
        self._answer(ERROR, task.task, 0, table, table_size, busy, 0, 0, failure.sample, pulls)

    def _write_error(self, task: Task, data: bytes) -> tuple[int, int]:
        try:
            slot = self.arena.at(task.slot, task.capacity)
            return write_table(Area(self.arena, self.claim, slot, task.area, task.area_size, 1), [], data)
        except Exception:
            return 0, 0  # no memory for the text; the parent reports the lack of memory

    def report_failure(self, error: BaseException, what: str) -> None:
        data = encode_exception(error, what)
        mapping = self.arena.grow(len(data) + 4096, self.claim)
        table, size = write_table(Area(self.arena, self.claim, mapping, 0, mapping.size, 1), [], data)
        self._answer(FAILED, 0, 0, table, size)

    def _answer(self, *values: Any) -> None:
        kind, *rest = values
        rest += [0] * (9 - len(rest))
        os.write(self.setup.results, DONE.pack(kind, self.index, *rest) + _PADDING)
