"""Threads of a pipeline: workers that take samples of jobs, and streams that run calls in order.

Threads that end a job put it on a list and write to an eventfd (:class:`Reports`); they do not enter the interpreter. So an entry that
comes late handles everything that has come meanwhile.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
from asyncdali_workers import limits
from asyncdali_workers.interrupts import uninterrupted
from asyncdali_workers.shared.calls import ENGINES, needed

from ..compiled.addresses import address_of
from ..compiled.job_tables import CREW, JOB, THREAD
from ..errors import PipelineClosed
from .joint import Joint

if TYPE_CHECKING:
    from ..compiled.step import Compiled

log = logging.getLogger("asyncdali")


class WorkerState:
    """The state of a thread: its record for compiled code, and scratch memory that grows on demand."""

    def __init__(self) -> None:
        self.record = np.zeros(THREAD.words, np.int64)
        self.scratch = np.empty(0, np.uint8)
        self.times = np.empty(0, np.int64)
        self._address = address_of(self.record)
        self._scratch_bytes = self._words = 0  # kept as numbers, because every job reads them

    def record_for(self, scratch_bytes: int, times: int = 0) -> int:
        """Address of the thread record, with at least `scratch_bytes` of 64-byte aligned scratch memory and `times` words for times."""
        if times > self._words:
            self.times = np.empty(2 * times, np.int64)
            self.record[THREAD.word.times] = address_of(self.times)
            self.record[THREAD.word.times_words] = self._words = len(self.times)
        if scratch_bytes > self._scratch_bytes:
            if scratch_bytes >= limits.CHECKED:
                limits.check(scratch_bytes + scratch_bytes // 4, "a worker thread needs memory for intermediate results")
            self.scratch = np.empty(scratch_bytes + scratch_bytes // 4 + 64, np.uint8)
            at = address_of(self.scratch)
            start = -at % 64
            self.record[THREAD.word.scratch] = at + start
            self.record[THREAD.word.scratch_bytes] = self._scratch_bytes = len(self.scratch) - start
        return self._address


Calls: TypeAlias = "queue.SimpleQueue[Callable[[WorkerState], object] | None]"
"""A queue of calls; None ends the thread."""


class Work(Protocol):
    """A job that several threads can share."""

    def work(self, thread: WorkerState) -> None: ...


class CompiledWork(Work, Protocol):
    """A job that is compiled completely: threads work on it without the interpreter.

    address    of its JOB;  crew  the threads that do it, once it is submitted
    finished   called on the thread that leaves last
    joint      the jobs that are reported together with it; None: it is reported alone
    report_to  called before it is submitted, with the address of the crew that reports its end
    """

    crew: WorkerThreads | None
    joint: Joint | None

    @property
    def address(self) -> int: ...
    def join(self, joint: Joint) -> None: ...
    def report_to(self, crew: int) -> None: ...
    def finished(self) -> None: ...
    def grow(self, thread: WorkerState) -> None: ...


class _Call:
    """Python work in a crew's list of jobs: its entry in the list, and the number of threads that have not reached the entry yet."""

    def __init__(self, work: Callable[[WorkerState], object], places: int):
        self.work, self.left = work, places
        self.block = np.zeros(JOB.words, np.int64)
        self.block[JOB.word.crew_call] = 1


class Reports:
    """Ends of jobs that wait for a thread to report them. No thread of a crew enters the interpreter for them.

    `jobs` are the jobs of all crews that report here, by address. :attr:`descriptor` is readable while ends wait.
    """

    def __init__(self, jobs: dict[int, CompiledWork]):
        from ..compiled import crew

        crew.forget_told.compile()
        self._crew = crew
        self._jobs = jobs
        self._block = np.zeros(CREW.words, np.int64)
        self.address = address_of(self._block)
        with needed("eventfd2", ENGINES):
            self.descriptor = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._block[CREW.word.tells], self._block[CREW.word.descriptor] = 1, self.descriptor
        weakref.finalize(self, os.close, self.descriptor).atexit = False

    def report(self) -> None:
        """Report the ends that wait. May be called from several threads at the same time."""
        self._crew.forget_told(self.address)  # before the list is emptied: a later end writes again
        while True:
            found = self._crew.reported(self.address)
            if not found:
                return
            _report(self._jobs, found & ~7)


def kernels_of_threads() -> list[Compiled]:
    """The kernels with which worker threads wait and work."""
    from ..compiled import crew, driver

    return [crew.offer, crew.serve, crew.reported, crew.take_part, crew.change, crew.close, crew.recall, driver.run_job]


class WorkerThreads:
    """`count` threads that work on jobs in order of submission. They wait and work in compiled code (:mod:`..compiled.crew`)."""

    def __init__(
        self, count: int, name: str, affinity: Sequence[int] | None = None, *, run: int = 0,
        reports_to: WorkerThreads | Reports | None = None,
    ):  # fmt: skip
        """`run`: address of the compiled function that does a job, given the job and the thread; default: the steps of its samples.

        `reports_to`: calls ``finished``, so these threads never enter the interpreter.
        """
        from ..compiled import crew, driver

        for function in kernels_of_threads():
            function.compile()
        self.count = count
        self.reports_to = reports_to
        self._block = np.zeros(CREW.words, np.int64)  # zero is the initial state of glibc's mutex and condition variable
        self._block[CREW.word.run] = run or driver.run_job.address
        self.address = address_of(self._block)
        self._crew = crew
        self._jobs: dict[int, CompiledWork] = {} if reports_to is None else reports_to._jobs
        self._calls: dict[int, _Call] = {}
        self._kept: list[object] = [reports_to]
        """Objects that a thread uses. A thread may outlive this object."""
        self._threads = [
            threading.Thread(target=_serve_crew, args=(self._crew, self._block, self._jobs, self._calls,
                                                       None if not affinity else [affinity[k % len(affinity)]], self._kept),
                             name=f"{name}-worker-{k}", daemon=True)
            for k in range(count)
        ]  # fmt: skip
        crew.crews[self.address] = self._block
        weakref.finalize(self, crew.crews.pop, self.address, None).atexit = False
        for thread in self._threads:
            thread.start()

    def submit(self, job: Work, samples: int) -> None:
        """Offer a job to as many workers as it has samples."""
        places = max(1, min(self.count, samples))
        address = getattr(job, "address", 0)
        if address:
            job.crew = self  # type: ignore[attr-defined]
            if self.reports_to is not None:
                job.report_to(self.reports_to.address)  # type: ignore[attr-defined]
            self._jobs[address] = job  # type: ignore[assignment]
        else:
            call = _Call(job.work, places)
            address = address_of(call.block)
            self._calls[address] = call
        self._crew.offer(self.address, address, places)

    def collect_reports(self) -> Reports:
        """Stop calling ``finished`` on these threads. Returns where the ends of later jobs wait. To be called before the first job."""
        self.reports_to = reports = Reports(self._jobs)
        self._kept.append(reports)
        return reports

    def take_part(self, job: CompiledWork, thread: int) -> bool:
        """Work on a job on another thread (given its record's address) until it is over. Returns whether to call ``finished``."""
        last = bool(self._crew.take_part(self.address, job.address, thread))
        if last:
            self._jobs.pop(job.address, None)
        return last

    def forget(self, job: CompiledWork) -> None:
        """A job is over, and another thread reports it."""
        self._jobs.pop(job.address, None)

    def close(self) -> None:
        """End the threads when the queued jobs are done."""
        self._crew.close(self.address)

    def join(self, timeout: float) -> bool:
        deadline = time.monotonic() + timeout
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)


def _serve_crew(
    crew: Any, block: np.ndarray, jobs: dict[int, CompiledWork], calls: dict[int, _Call], cpus: Sequence[int] | None, kept: object
) -> None:
    """Main function of a worker thread. It keeps the crew's memory alive, but not the object, which may be dropped earlier."""
    _pin(cpus)
    state, at = WorkerState(), address_of(block)
    own = state.record_for(0)
    while True:
        # Handle all reports that have arrived while holding the interpreter lock. Taking it again may cost 5 ms beside a busy thread.
        result = crew.reported(at) or crew.serve(at, own)
        wanted, address = result & 7, result & ~7
        if wanted == crew.END:
            return
        try:
            if wanted == crew.OVER:
                _report(jobs, address)
            elif wanted == crew.CALL:
                call = calls[address]
                call.left -= 1
                if not call.left:
                    del calls[address]
                call.work(state)
                del call
            elif wanted == crew.GROW:
                job = jobs.get(address)
                if job is not None:  # otherwise the job is over
                    job.grow(state)
                del job
        except BaseException:  # a bug in the runtime: a thread must not end silently
            log.exception("unexpected error on a worker thread")


def _report(jobs: dict[int, CompiledWork], address: int) -> None:
    """Call ``finished`` of the job at `address`, and of the jobs that are reported together with it."""
    job = jobs.pop(address)
    (job.finished if job.joint is None else job.joint.finish)()


def _pin(cpus: Sequence[int] | None) -> None:
    """Pin the calling thread to `cpus`; None: do nothing."""
    if not cpus:
        return
    try:
        os.sched_setaffinity(0, cpus)
    except (OSError, AttributeError) as error:
        log.warning("could not pin a thread to the CPUs %s: %s", cpus, error)


def _serve(calls: Calls, cpus: Sequence[int] | None, what: str) -> None:
    """Main function of a thread: make the calls of its queue until None comes."""
    _pin(cpus)
    state = WorkerState()
    while True:
        call = calls.get()
        if call is None:
            return
        try:
            call(state)
        except BaseException:  # a bug in the runtime: a thread must not end silently
            log.exception("unexpected error on a %s thread", what)
        del call


class OrderedThread:
    """Runs calls one after another on its own thread, which starts at the first call."""

    def __init__(self, name: str, affinity: Sequence[int] | None = None):
        self._name = name
        self._affinity = affinity
        self._queue: Calls = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._closed = False

    def submit(self, work: Callable[[WorkerState], object]) -> bool:
        """Queue `work`. After :meth:`close` it does nothing and returns False."""
        with self._lock:
            if self._closed:
                return False
            self._start()
            self._queue.put(work)
            return True

    def start(self) -> None:
        """Start the thread before the first call."""
        with self._lock:
            if not self._closed:
                self._start()

    def _start(self) -> None:
        if self._thread is None:
            thread = threading.Thread(target=_serve, args=(self._queue, self._affinity, "stage"), name=self._name, daemon=True)
            with uninterrupted():  # Ctrl-C inside `start` would leave a thread that is never joined, or a thread that is never run
                thread.start()
                self._thread = thread

    def close(self) -> None:
        """End the thread when the queued calls are done."""
        with self._lock:
            self._closed = True
            self._queue.put(None)

    def join(self, timeout: float) -> bool:
        """Wait for the end. Returns False on a time-out."""
        if self._thread is None or self._thread is threading.current_thread():
            return True
        self._thread.join(timeout)
        return not self._thread.is_alive()


class _FutureCall:
    """A function to be called on another thread, for a future."""

    def __init__(self, future: Future[object], function: Callable[[], object]):
        self._future: Future[Any] | None = future
        self._function: Callable[[], Any] | None = function

    def __call__(self, state: WorkerState) -> None:
        future, function = self._future, self._function
        assert future is not None and function is not None
        # This frame must not refer to the function when a waiting thread continues. The future keeps an error, the error's traceback keeps
        # this frame, and the frame would keep the function.
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
    """Calls functions one after another on its own thread and returns their results as futures."""

    def __init__(self, name: str):
        self._thread = OrderedThread(name)

    def submit(self, function: Callable[[], object]) -> Future[object]:
        """Queue a call. A future that is cancelled before it begins is not called. After :meth:`close` its error is PipelineClosed."""
        future: Future[Any] = Future()
        if not self._thread.submit(_FutureCall(future, function)):
            future.set_exception(PipelineClosed("the pipeline was closed"))
        return future

    def close(self) -> None:
        """End the thread when the queued calls are done."""
        self._thread.close()
