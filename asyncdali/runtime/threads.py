"""Threads of a pipeline: workers that take samples of jobs, and streams that run work in order."""

from __future__ import annotations

import logging
import os
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Any

from .jobs import Job, WorkerState

log = logging.getLogger("asyncdali")


class WorkerThreads:
    """`count` threads that work on jobs in the order they were submitted."""

    def __init__(self, count: int, name: str, affinity: Sequence[int] | None = None):
        self.count = count
        self._queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._current: set[Job] = set()
        self._threads = [
            threading.Thread(target=_work, args=(self._queue, self._current, None if not affinity else affinity[k % len(affinity)]),
                             name=f"{name}-worker-{k}", daemon=True)
            for k in range(count)
        ]  # fmt: skip
        for thread in self._threads:
            thread.start()

    def submit(self, job: Job, samples: int) -> None:
        """Offer a job to as many workers as it has samples for."""
        for _ in range(max(1, min(self.count, samples))):
            self._queue.put(job)

    def close(self) -> None:
        """Stop after the samples in work; nothing queued is started."""
        for job in list(self._current):
            job.stop()
        for _ in self._threads:
            self._queue.put(None)

    def join(self, timeout: float) -> bool:
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(timeout)
        return not any(thread.is_alive() for thread in self._threads)


def _pin(cpu: int) -> None:
    try:
        os.sched_setaffinity(0, {cpu})
    except (OSError, AttributeError) as error:
        log.warning("could not pin a worker thread to cpu %d: %s", cpu, error)


def _work(jobs: queue.SimpleQueue[Job | None], current: set[Job], cpu: int | None) -> None:
    if cpu is not None:
        _pin(cpu)
    state = WorkerState()
    while True:
        job = jobs.get()
        if job is None:
            return
        current.add(job)
        try:
            job.work(state)
        except BaseException:  # a bug in the runtime itself: never lose the thread silently
            log.exception("unexpected error on a worker thread")
        finally:
            current.discard(job)
        del job


class OrderedThread:
    """Runs callables one after another on a thread of its own, started at the first one."""

    def __init__(self, name: str):
        self._name = name
        self._queue: queue.SimpleQueue[Callable[[WorkerState], Any] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def submit(self, work: Callable[[WorkerState], Any]) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=_run_in_order, args=(self._queue,), name=self._name, daemon=True)
            self._thread.start()
        self._queue.put(work)

    def close(self) -> None:
        self._queue.put(None)

    def join(self, timeout: float) -> bool:
        if self._thread is None or self._thread is threading.current_thread():
            return True
        self._thread.join(timeout)
        return not self._thread.is_alive()


def _run_in_order(work: queue.SimpleQueue[Callable[[WorkerState], Any] | None]) -> None:
    state = WorkerState()
    while True:
        call = work.get()
        if call is None:
            return
        try:
            call(state)
        except BaseException:  # a bug in the runtime itself: never lose the thread silently
            log.exception("unexpected error on a stage thread")
        del call
