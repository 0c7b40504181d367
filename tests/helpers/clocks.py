"""Clocks that a test moves. A busy machine cannot reach a time limit by chance with them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from asyncdali_workers.shared.control import SINCE, TASK_ID

from asyncdali.engines.parent import answers, faults, sending, source_requests
from asyncdali.runtime.counting import counters, segment_counters
from asyncdali.runtime.order import executor

from .processes import wait_until

TIMEOUT = 600.0
"""The value that tests give as `worker_timeout` or `engine_timeout`."""


class PoolClock:
    """Replaces ``asyncdali_workers.processes.overtime.time``: time passes for the callables of a pool only when a test says so."""

    def __init__(self, pool: Any):
        self.engine = pool._dispatcher
        self.moved = 0.0
        self.stands: float | None = None

    def monotonic(self) -> float:
        return time.monotonic() + self.moved if self.stands is None else self.stands

    def over(self, busy: int = 1, stands: bool = True) -> None:
        """Let the time limit of this number of running callables pass, with no other work left.

        With `stands` the clock stops afterwards.
        """
        wait_until(lambda: self._settled(busy))
        self.moved = 2 * TIMEOUT
        self.stands = time.monotonic() + self.moved if stands else None

    def _settled(self, busy: int) -> bool:
        waiting = any(ring.head != ring.tail for ring in self.engine._queues._rings)
        running = [member.block for member in self.engine._members if member.block[TASK_ID]]
        return not waiting and len(running) == busy and all(block[SINCE] for block in running)

    def back(self) -> None:
        self.moved, self.stands = 0.0, None


class EngineClock:
    """The clock of ``asyncdali.engines``: while `hangs` is set, each call finds that more than :data:`TIMEOUT` has passed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, hangs: Callable[[], bool]):
        self.hangs = hangs
        self.moved = 0.0
        for module in (answers, faults, sending, source_requests):
            monkeypatch.setattr(module, "monotonic", self)

    def __call__(self) -> float:
        if self.hangs():
            self.moved += 2 * TIMEOUT
        return time.monotonic() + self.moved


class CountedClock:
    """Replaces the clocks of a pipeline's statistics: time passes, and processor time is used, only where a test says so.

    With one iteration in flight (`prefetch_queue_depth=1`), every time of the statistics is exact.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.time = 1_000_000_000
        self._used = threading.local()
        for module in (counters, executor, segment_counters):
            monkeypatch.setattr(module, "now", lambda: self.time)
        for module in (counters, segment_counters):
            monkeypatch.setattr(module, "time", SimpleNamespace(thread_time_ns=self._processor))

    def _processor(self) -> int:
        return getattr(self._used, "time", 0)

    def passes(self, milliseconds: int, processor: int = 0) -> None:
        """Advance the clocks by this number of milliseconds, of which this thread uses `processor` as processor time."""
        self.time += milliseconds * 1_000_000
        self._used.time = self._processor() + processor * 1_000_000
