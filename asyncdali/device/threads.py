"""Threads of a pipeline: workers that take samples of jobs, and streams that run work in order."""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Protocol, TypeAlias

import numpy as np
from asyncdali_workers import limits

from ..compiled import THREAD_FIELDS
from ..compiled.memory import address_of
from ..errors import PipelineClosed

log = logging.getLogger("asyncdali")


class WorkerState:
    """What a thread owns: its record for compiled code, and scratch memory that grows with need."""

    def __init__(self) -> None:
        self.record = np.zeros(len(THREAD_FIELDS), np.int64)
        self.scratch = np.empty(0, np.uint8)
        self.times = np.empty(0, np.int64)
        self._address = address_of(self.record)
        self._scratch_bytes = self._words = 0  # of both: every job asks

    def record_for(self, scratch_bytes: int, times: int = 0) -> int:
        """Address of the thread record, with at least `scratch_bytes` of 64-byte aligned scratch and `times` words for times."""
        if times > self._words:
            self.times = np.empty(2 * times, np.int64)
            self.record[4] = address_of(self.times)
            self._words = len(self.times)
        if scratch_bytes > self._scratch_bytes:
            if scratch_bytes >= limits.CHECKED:
                limits.check(scratch_bytes + scratch_bytes // 4, "a worker thread needs memory for intermediate results")
            self.scratch = np.empty(scratch_bytes + scratch_bytes // 4 + 64, np.uint8)
            at = address_of(self.scratch)
            start = -at % 64
            self.record[0] = at + start
            self.record[1] = self._scratch_bytes = len(self.scratch) - start
        return self._address


Calls: TypeAlias = "queue.SimpleQueue[Callable[[WorkerState], Any] | None]"
"""What threads take their work from; None ends a thread."""


class Work(Protocol):
    """Something several threads can take part in."""

    def work(self, thread: WorkerState) -> None: ...


class WorkerThreads:
    """`count` threads that work on jobs in the order they were submitted."""

    def __init__(self, count: int, name: str, affinity: Sequence[int] | None = None):
        self.count = count
        self._queue: Calls = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=_serve, args=(self._queue, None if not affinity else [affinity[k % len(affinity)]], "worker"),
                             name=f"{name}-worker-{k}", daemon=True)
            for k in range(count)
        ]  # fmt: skip
        for thread in self._threads:
            thread.start()

    def submit(self, job: Work, samples: int) -> None:
        """Offer a job to as many workers as it has samples for."""
        for _ in range(max(1, min(self.count, samples))):
            self._queue.put(job.work)

    def close(self) -> None:
        """End the threads once the jobs queued so far are over."""
        for _ in self._threads:
            self._queue.put(None)

    def join(self, timeout: float) -> bool:
        deadline = time.monotonic() + timeout
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)


def _pin(cpus: Sequence[int] | None) -> None:
    """Keep the calling thread on `cpus`; None leaves it alone."""
    if not cpus:
        return
    try:
        os.sched_setaffinity(0, cpus)
    except (OSError, AttributeError) as error:
        log.warning("could not pin a thread to the CPUs %s: %s", cpus, error)


def _serve(calls: Calls, cpus: Sequence[int] | None, what: str) -> None:
    """The life of a thread: make the calls of its queue until None comes."""
    _pin(cpus)
    state = WorkerState()
    while True:
        call = calls.get()
        if call is None:
            return
        try:
            call(state)
        except BaseException:  # a bug in the runtime itself: never lose the thread silently
            log.exception("unexpected error on a %s thread", what)
        del call


class OrderedThread:
    """Runs callables one after another on a thread of its own, started at the first one."""

    def __init__(self, name: str, affinity: Sequence[int] | None = None):
        self._name = name
        self._affinity = affinity
        self._queue: Calls = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._closed = False

    def submit(self, work: Callable[[WorkerState], Any]) -> bool:
        """Queue `work`; False, and nothing happens, after :meth:`close`."""
        with self._lock:
            if self._closed:
                return False
            if self._thread is None:
                thread = threading.Thread(target=_serve, args=(self._queue, self._affinity, "stage"), name=self._name, daemon=True)
                thread.start()
                self._thread = thread
            self._queue.put(work)
            return True

    def close(self) -> None:
        """End the thread once what is queued is done."""
        with self._lock:
            self._closed = True
            self._queue.put(None)

    def join(self, timeout: float) -> bool:
        """Wait for the end; False on time-out."""
        if self._thread is None or self._thread is threading.current_thread():
            return True
        self._thread.join(timeout)
        return not self._thread.is_alive()


class _Call:
    """A function to be called on another thread, for a future."""

    def __init__(self, future: Future[Any], function: Callable[[], Any]):
        self._future: Future[Any] | None = future
        self._function: Callable[[], Any] | None = function

    def __call__(self, state: WorkerState) -> None:
        future, function = self._future, self._function
        assert future is not None and function is not None
        # Nothing that waits for the future may find the function still referred to here. And the future keeps its error, whose traceback
        # holds this frame.
        self._future = self._function = None
        try:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = function()
            finally:
                del function
            future.set_result(result)
        except BaseException as error:
            future.set_exception(error)
        finally:
            del future


class CallThread:
    """Calls functions one after another on a thread of its own, and gives their results as futures."""

    def __init__(self, name: str):
        self._thread = OrderedThread(name)

    def submit(self, function: Callable[[], Any]) -> Future[Any]:
        """Queue a call; a cancelled future that has not begun is not called. After :meth:`close` the future's error is PipelineClosed."""
        future: Future[Any] = Future()
        if not self._thread.submit(_Call(future, function)):
            future.set_exception(PipelineClosed("the pipeline was closed"))
        return future

    def close(self) -> None:
        """End the thread once what is queued is done."""
        self._thread.close()
