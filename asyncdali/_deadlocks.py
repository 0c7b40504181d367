"""Calls of a pipeline that wait for a function which the pipeline calls, while that function waits for them.

A source, or the function of an operator, may start a thread, let the thread call ``pipe.run()``, and wait for the thread. Neither ends. A
thread does not know who started it, and another thread that calls ``run()`` meanwhile is a normal consumer. So a call that waits looks at
the stacks of the threads that it waits for. A stack in ``Thread.join()`` or ``Future.result()`` without a timeout, for the very thread that
is calling, is proof: that stack cannot go on before the call returns. Such a call raises :class:`Deadlock`.

What waits in other ways (a queue, an event) proves nothing, because a third thread may end the wait. Such calls go on waiting, and after
:data:`PATIENCE` seconds a warning in the log says for which line of the program.

Runs on the thread that calls the pipeline, and only where it waits. Stacks are read with ``sys._current_frames``.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures.thread import _WorkItem  # type: ignore[attr-defined]
from contextlib import AbstractContextManager
from types import CodeType, FrameType
from typing import Any

log = logging.getLogger("asyncdali")

FIRST_LOOK, PAUSE = 0.05, 0.5
"""Seconds before the stacks are looked at for the first time, and between later looks."""

PATIENCE = 10.0
"""Seconds after which the log says what a call waits for."""

_JOIN = threading.Thread.join.__code__
_RESULTS = (Future.result.__code__, Future.exception.__code__)
_WORK = _WorkItem.run.__code__

_BOOTSTRAP = threading.Thread._bootstrap.__code__  # type: ignore[attr-defined]

_waits: dict[CodeType, Callable[[Any], threading.Thread | None]] = {}
"""Methods that wait for a thread, and which thread that is by the method's `self`."""

Holder = Callable[[FrameType], bool]
"""Whether a frame is one that a call waits for. What its stack does further in is, or may be, a function that the pipeline calls."""


def waits_for_thread(method: Any, thread_of: Callable[[Any], threading.Thread | None]) -> None:
    """Declare that whoever is in `method` waits until ``thread_of(self)`` has done something for it (None: no longer)."""
    _waits[method.__code__] = thread_of


def runs_thread(thread: threading.Thread) -> Holder:
    """Whether a frame is the outermost one of a thread."""
    return lambda frame: frame.f_code is _BOOTSTRAP and frame.f_locals.get("self") is thread


class Deadlock(RuntimeError):
    """A call waits for what waits for it. `ident` is the thread of the call."""

    def __init__(self, message: str = ""):
        super().__init__(message)
        self.ident = threading.get_ident()


class Patience:
    """One wait of a call: how long to wait before the next look, and the look."""

    def __init__(self, holds: Holder):
        self._holds = holds
        self._began = time.monotonic()
        self._seconds = FIRST_LOOK
        self._told = False

    def seconds(self) -> float:
        """How long to wait before :meth:`look`."""
        seconds, self._seconds = self._seconds, PAUSE
        return seconds

    def look(self, notice: bool = True) -> None:
        """Deadlock if what is waited for waits for this thread. With `notice` a long wait is told to the log, once."""
        stacks = sys._current_frames()
        try:
            self._look(stacks, notice)
        finally:
            stacks.clear()  # it holds this very frame: the cycle would keep the pipeline until a collection

    def _look(self, stacks: dict[int, FrameType], notice: bool) -> None:
        me = threading.current_thread()
        holders = [ident for ident, frame in stacks.items() if ident != me.ident and any(map(self._holds, _frames(frame)))]
        for ident in holders:
            if _waits_for(stacks, ident, me):
                raise Deadlock(
                    "the call would never return: the calling thread was handed it by a function that this very pipeline calls (a source, "
                    "or the function of an operator), and that function waits for the thread. Call it from outside, when the pipeline's "
                    "call has returned; other pipelines can be used there."
                )
        if notice and holders and not self._told and time.monotonic() - self._began > PATIENCE:
            self._told = True
            log.warning(
                "a call of a pipeline has waited for %.0f s for a function that the pipeline calls, which is %s. If that function waits "
                "for the call (of thread %r), neither will end.", time.monotonic() - self._began, _place(stacks[holders[0]]), me.name,
            )  # fmt: skip


class PatientLock:
    """A reentrant lock whose waiters look for deadlocks. `holds` tells the stacks that the lock is held for."""

    def __init__(self, holds: Holder):
        self._lock = threading.RLock()
        self._holds = holds

    def held_here(self) -> bool:
        """Whether the calling thread has it."""
        return bool(self._lock._is_owned())  # type: ignore[attr-defined]

    def held(self) -> AbstractContextManager[Any]:
        """Holds the lock for a block.

        The main thread takes the lock itself: an interrupt (Ctrl-C) in a method of ours could leave the lock held. No function can have
        started the main thread, so no function waits for it.
        """
        return self._lock if threading.current_thread() is threading.main_thread() else self

    def __enter__(self) -> None:
        if self._lock.acquire(timeout=FIRST_LOOK):
            return
        patience = Patience(self._holds)
        while True:
            patience.look()
            if self._lock.acquire(timeout=PAUSE):
                return

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    """A stack, the innermost frame first."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def _waits_for(stacks: dict[int, FrameType], ident: int, me: threading.Thread) -> bool:
    """Whether a thread waits without limit until the thread `me` ends, or a future that `me` computes; or for a thread that does."""
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


def _awaited(frame: FrameType | None) -> Iterator[Any]:
    """Threads and futures that a stack waits for, for as long as it takes."""
    for one in _frames(frame):
        if one.f_code is _JOIN or one.f_code in _RESULTS:
            names = one.f_locals
            if names.get("timeout") is None:
                yield names.get("self")
        elif one.f_code in _waits:
            yield _waits[one.f_code](one.f_locals["self"])


def _computed(frame: FrameType | None) -> Iterator[Any]:
    """Futures of a thread pool that a stack computes."""
    for one in _frames(frame):
        if one.f_code is _WORK:
            yield one.f_locals["self"].future


def _place(frame: FrameType) -> str:
    """Where a stack is, in the program's own code as far as that can be told from the standard library's and ours."""
    ours = __name__.partition(".")[0]
    for one in _frames(frame):
        module = one.f_globals.get("__name__", "").partition(".")[0]
        if module != ours and module not in sys.stdlib_module_names:
            return f"in {one.f_code.co_filename}:{one.f_lineno}, {one.f_code.co_name}"
    return f"in {frame.f_code.co_filename}:{frame.f_lineno}, {frame.f_code.co_name}"
