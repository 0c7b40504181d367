"""Measures how long Python's interpreter is needed.

Compiled functions are called through ctypes, which releases the interpreter lock. Their class is wrapped to add up the processor time that
threads spend inside. Methods that the caller names (nvJPEG's, for example) are wrapped, too. The remaining processor time of the process is
interpreter time. Numpy and system calls that release the lock for a moment count as holding it, so the figure is an upper bound.

Calls are long: a thread takes part in a job of many samples. Some calls are running when the measurement begins and ends. At both times
the clock of each thread gives the time spent in such a call so far.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType

_PATIENCE = 5.0  # longest time in seconds to wait for calls begun before the measurement


class InterpreterTime:
    """`seconds`: processor time of this process outside of compiled code, known at the end of :func:`interpreter_time`. `threads`: the same
    for each thread that lived for the whole measurement, as (name, seconds)."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.threads: list[tuple[str, float]] = []


class _Calls:
    """Time of one thread in compiled functions. `done` is in ns. `entered` is the thread's clock at the start of its current call, or 0."""

    def __init__(self) -> None:
        self.done = self.entered = 0
        self.thread = threading.current_thread()
        self._clock = time.pthread_getcpuclockid(threading.get_ident())

    def spent(self) -> int:
        """Nanoseconds so far. Any thread may call this method."""
        entered = self.entered
        return self.done + (time.clock_gettime_ns(self._clock) - entered if entered else 0)


@contextmanager
def interpreter_time(*released: tuple[type, str]) -> Iterator[InterpreterTime]:
    """Measure the block. Only one measurement may run at a time. Threads that make the calls must live until its end.

    `released` are further methods, as (class, name), that run without the interpreter lock.
    """
    from ..compiled.crew import recall_all
    from ..compiled.step import Compiled

    inside = threading.local()
    threads: list[_Calls] = []

    def timed(original: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object) -> object:
            if isinstance(args[0], Compiled) and args[0].brief:  # a brief function keeps the lock
                return original(*args)
            if not hasattr(inside, "calls"):
                inside.calls = _Calls()
                threads.append(inside.calls)
            calls = inside.calls
            outer, calls.entered = calls.entered, calls.entered or time.thread_time_ns()
            try:
                return original(*args)
            finally:
                if not outer:
                    calls.done += time.thread_time_ns() - calls.entered
                    calls.entered = 0

        return call

    def outside() -> float:
        return time.process_time() - sum([calls.spent() for calls in threads]) / 1e9

    def by_thread() -> dict[threading.Thread, float]:
        spent = {calls.thread: calls.spent() / 1e9 for calls in list(threads)}
        return {thread: _processor_time(thread) - spent.get(thread, 0.0) for thread in threading.enumerate()}

    originals = [(owner, name, getattr(owner, name)) for owner, name in ((Compiled, "__call__"), *released)]
    found = InterpreterTime()
    try:
        for owner, name, original in originals:
            measured = timed(original)
            setattr(owner, name, measured)
            _wait_for_other_calls(original.__code__, measured.__code__, recall_all)
        before, theirs = outside(), by_thread()
        yield found
        found.seconds = max(0.0, outside() - before)
        found.threads = [(thread.name, used - theirs[thread]) for thread, used in by_thread().items() if thread in theirs]
    finally:
        for owner, name, original in originals:
            setattr(owner, name, original)


def _processor_time(thread: threading.Thread) -> float:
    assert thread.ident is not None
    return time.clock_gettime(time.pthread_getcpuclockid(thread.ident))


def _wait_for_other_calls(code: CodeType, measured: CodeType, recall: Callable[[], None]) -> None:
    """Wait until no thread is in `code` except through `measured`: other calls began before the measurement.

    `recall` makes worker threads return. A thread may be between Python's call and the compiled function at that moment, and then it
    waits for jobs as if it had not been recalled. So `recall` is repeated.
    """
    deadline = time.monotonic() + _PATIENCE
    recall()
    while any(_unmeasured(code, measured, frame) for frame in sys._current_frames().values()) and time.monotonic() < deadline:
        time.sleep(0.0005)
        recall()


def _unmeasured(code: CodeType, measured: CodeType, frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code is not measured:
        if frame.f_code is code and (frame.f_back is None or frame.f_back.f_code is not measured):
            return True
        frame = frame.f_back
    return False
