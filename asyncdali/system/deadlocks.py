"""Detects deadlocks: a call of a pipeline waits for a function that the pipeline calls, while this function waits for the call.

A source, or an operator's function, may start a thread, let the thread call ``pipe.run()``, and wait for the thread. Then neither ends. A
thread does not know who started it, and another thread that calls ``run()`` is a normal consumer. So a waiting call examines the stacks of
the threads that it waits for. A stack in ``Thread.join()`` or ``Future.result()`` without a timeout, for the calling thread, proves a
deadlock: that stack cannot continue before the call returns. Such a call raises :class:`Deadlock`.

Other kinds of waiting (a queue, an event) prove nothing, because a third thread may end the wait. Such calls continue to wait, and after
:data:`PATIENCE` seconds a warning in the log names the line of the program.

This runs on the thread that calls the pipeline, and only while it waits. Stacks are read with ``sys._current_frames``.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Container, Iterator
from concurrent.futures import Future
from concurrent.futures.thread import _WorkItem
from contextlib import AbstractContextManager
from types import CodeType, FrameType
from typing import Any

log = logging.getLogger("asyncdali")

FIRST_LOOK, PAUSE = 0.05, 0.5
"""Seconds before the first check of the stacks, and between later checks."""

PATIENCE = 10.0
"""Seconds after which a waiting call logs the function that it waits for."""

_JOIN = threading.Thread.join.__code__
_RESULTS = (Future.result.__code__, Future.exception.__code__)
_WORK = _WorkItem.run.__code__

_BOOTSTRAP = threading.Thread._bootstrap.__code__  # type: ignore[attr-defined]

_waits: dict[CodeType, Callable[[Any], threading.Thread | None]] = {}
"""Methods that wait for a thread, with a function that gives the thread from the method's `self`."""

_main = threading.main_thread().ident

Holder = Callable[[FrameType], bool]
"""Whether a call waits for a stack, given by its innermost frame: for one of the frames, whose inner frames are, or may be, a function that
the pipeline calls."""


def _after_fork() -> None:
    global _main
    _main = threading.get_ident()


os.register_at_fork(after_in_child=_after_fork)


def in_main_thread() -> bool:
    """Whether the caller is on the main thread. Every iteration asks this; ``threading`` would need three calls for the answer."""
    return threading.get_ident() == _main


def waits_for_thread(method: Any, thread_of: Callable[[Any], threading.Thread | None]) -> None:
    """Declare that a thread in `method` waits for the thread ``thread_of(self)`` (None: it does not wait any more)."""
    _waits[method.__code__] = thread_of


def runs_thread(thread: threading.Thread) -> Holder:
    """Whether a stack is a thread's."""
    return lambda frame: any(outer.f_locals.get("self") is thread for outer in frames_of(frame, {_BOOTSTRAP}))


class Deadlock(RuntimeError):
    """A call waits for a function that waits for the call. `ident` is the calling thread."""

    def __init__(self, message: str = ""):
        super().__init__(message)
        self.ident = threading.get_ident()


class DeadlockWait:
    """One wait of a call: the seconds before the next check, and the check."""

    def __init__(self, holds: Holder):
        self._holds = holds
        self._began = time.monotonic()
        self._seconds = FIRST_LOOK
        self._warned = False

    def seconds(self) -> float:
        """Seconds to wait before :meth:`look`."""
        seconds, self._seconds = self._seconds, PAUSE
        return seconds

    def look(self, notice: bool = True) -> None:
        """Raise Deadlock if a deadlock is proved. With `notice` a long wait is logged once."""
        stacks = sys._current_frames()
        try:
            self._look(stacks, notice)
        finally:
            stacks.clear()  # one of the stacks holds this frame; the cycle would keep its variables alive

    def _look(self, stacks: dict[int, FrameType], notice: bool) -> None:
        me = threading.current_thread()
        holders = [ident for ident, frame in stacks.items() if ident != me.ident and self._holds(frame)]
        for ident in holders:
            if _waits_for(stacks, ident, me):
                raise Deadlock(
                    "this call of the pipeline would never return: a source of the same pipeline, or the function of an operator, passed "
                    "the "
                    "call to this thread and waits for the thread. Make the call outside of such functions, when the pipeline's "
                    "call has returned; other pipelines can be used there."
                )
        if notice and holders and not self._warned and time.monotonic() - self._began > PATIENCE:
            self._warned = True
            log.warning(
                "a call of a pipeline has waited %.0f s for a function that the pipeline calls: %s. If the function waits "
                "for this call (in thread %r), both wait forever.", time.monotonic() - self._began, _place(stacks[holders[0]]), me.name,
            )  # fmt: skip


class PatientLock:
    """A reentrant lock whose waiters check for deadlocks. `holds` tells for which stacks the lock is held."""

    def __init__(self, holds: Holder):
        self._lock = threading.RLock()
        self._holds = holds
        self.held_here: Callable[[], bool] = self._lock._is_owned  # type: ignore[attr-defined]
        """Whether the calling thread holds the lock."""

    def held(self) -> AbstractContextManager[object]:
        """Hold the lock for a block.

        The main thread takes the lock directly, because an interrupt (Ctrl-C) in a method of ours could leave the lock held. No function
        can have started the main thread, so no function waits for it.
        """
        return self._lock if threading.get_ident() == _main else self

    def __enter__(self) -> None:
        if self._lock.acquire(timeout=FIRST_LOOK):
            return
        patience = DeadlockWait(self._holds)
        while True:
            patience.look()
            if self._lock.acquire(timeout=PAUSE):
                return

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def frames_of(frame: FrameType | None, codes: Container[CodeType]) -> list[FrameType]:
    """The frames of a stack that run one of these codes, innermost first."""
    found = []
    while frame is not None:
        if frame.f_code in codes:
            found.append(frame)
        frame = frame.f_back
    return found


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    """A stack, innermost frame first."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def _waits_for(stacks: dict[int, FrameType], ident: int, me: threading.Thread) -> bool:
    """Whether a thread waits without a timeout for the end of thread `me`, for a future that `me` computes, or for a thread that does
    so."""
    seen: set[int] = set()
    open_idents = [ident]
    while open_idents:
        now = open_idents.pop()
        if now in seen:
            continue
        seen.add(now)
        for awaited in _awaited(stacks.get(now)):
            if awaited is me or (isinstance(awaited, Future) and any(awaited is one for one in _computed(stacks.get(me.ident or 0)))):
                return True
            if isinstance(awaited, threading.Thread):
                open_idents.append(awaited.ident or 0)
            else:
                open_idents += [other for other, frame in stacks.items() if any(awaited is one for one in _computed(frame))]
    return False


def _awaited(frame: FrameType | None) -> Iterator[object]:
    """Threads and futures for which a stack waits without a timeout."""
    for one in _frames(frame):
        if one.f_code is _JOIN or one.f_code in _RESULTS:
            names = one.f_locals
            if names.get("timeout") is None:
                yield names.get("self")
        elif one.f_code in _waits:
            yield _waits[one.f_code](one.f_locals["self"])


def _computed(frame: FrameType | None) -> Iterator[object]:
    """Futures of a thread pool that a stack is computing."""
    for one in _frames(frame):
        if one.f_code is _WORK:
            yield one.f_locals["self"].future


def _place(frame: FrameType) -> str:
    """The innermost line of a stack that is neither in the standard library nor in this package."""
    ours = __name__.partition(".")[0]
    for one in _frames(frame):
        module = one.f_globals.get("__name__", "").partition(".")[0]
        if module != ours and module not in sys.stdlib_module_names:
            return f"in {one.f_code.co_filename}:{one.f_lineno}, {one.f_code.co_name}"
    return f"in {frame.f_code.co_filename}:{frame.f_lineno}, {frame.f_code.co_name}"
