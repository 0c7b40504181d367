"""Exceptions of signal handlers: steps that they must not interrupt, and the difference between them and other exceptions.

The problem. CPython calls the handlers of signals between any two steps of the main thread. A handler may raise: Ctrl-C does, and a time
limit by SIGALRM does. The exception then comes out of a line that cannot raise it, for example between two assignments that belong
together.

What does not work:

- A flag that says how far the code has come: the exception may come before the flag is set.
- ``try``/``finally`` around both steps: the exception may come in the ``finally`` block, or before the ``try``.
- ``signal.pthread_sigmask``: blocked signals are noted by C code; unblocking runs the handler at a place that is as bad. It also costs two
  system calls, and does not reach a signal that another thread has received already.
- A second thread for all such steps: a hand-over costs 20 to 60 us per iteration.

The solution. Most code needs nothing: it is written so that the next call finds out what is missing (``claims``). For short steps
that change several things, :class:`uninterrupted` replaces the handlers by one that notes the signal, and calls the real handlers at the
end of the block. Only the main thread runs handlers, so the block does nothing on other threads. :class:`delayed` is for a step of the
user's code that an exception would end, as a generator; its delay has a limit, because the code may never end.

Code that catches an exception of the user's function asks :func:`raised_by_signal` whether a handler has raised it on top of that function.
If so, the exception is no error of the function. A handler's frame is recognised by its code, or because it has the interrupted frame as an
argument.

One assumption is left: between the last step of a function and the return of its frames, CPython runs no handler.
"""

from __future__ import annotations

import os
import threading
import time

# The C module, because the functions of `signal` convert to enumerations: 50 calls of Python functions for each use of `uninterrupted`.
from _signal import SIGINT, getsignal, pthread_kill, signal, valid_signals
from _thread import start_new_thread
from collections import deque
from itertools import repeat
from types import CodeType, FrameType
from typing import Any

_main = threading.main_thread().ident
_OTHERS = sorted(int(number) for number in valid_signals() if number not in (SIGINT, 9, 19) and number < 32)
"""Signals that may have a handler in Python, except for Ctrl-C and the real-time signals."""
_CTRL_C = (SIGINT,)


def _after_fork() -> None:
    global _main
    _main = threading.get_ident()


os.register_at_fork(after_in_child=_after_fork)


def only_ctrl_c() -> bool:
    """Whether SIGINT is the only signal with a handler in Python. The handler of another signal may be a time limit, which must not wait
    for work that takes long. Always true on other threads than the main thread, which run no handlers."""
    return threading.get_ident() != _main or not any(map(callable, map(getsignal, _OTHERS)))


class uninterrupted:
    """Delays the handlers of signals until the end of the block. Only the main thread is ever interrupted.

    The block must be short: a time limit that a handler raises waits, too. If several handlers raise, the first exception is raised.
    `others`: whether handlers of other signals than Ctrl-C are delayed (:func:`only_ctrl_c`).
    """

    __slots__ = ("_later", "_replaced", "others")
    limited = False

    def __enter__(self) -> uninterrupted:
        self._later: _Later | None = None
        self.others = False
        if threading.get_ident() != _main:
            return self
        handler = getsignal(SIGINT)
        self.others = any(map(callable, map(getsignal, _OTHERS)))  # rarely; the check takes 0.9 us
        if type(handler) is _Later:  # an outer block delays all
            return self
        if self.others:
            wanted = [(SIGINT, handler)] if callable(handler) else []
            others = [(number, getsignal(number)) for number in _OTHERS]
            if any(type(other) is _Later for _, other in others):
                return self
            wanted += [found for found in others if callable(found[1])]
            if not wanted:
                return self
            self._replaced: Any = tuple(zip(*wanted))
        elif callable(handler):
            self._replaced = _CTRL_C, (handler,)
        else:
            return self
        later = _Later(self)
        try:
            deque(map(signal, self._replaced[0], repeat(later)), 0)
            self._later = later
        except BaseException as error:  # a handler that was not replaced yet has raised
            _restore(self._replaced)
            if not isinstance(error, ValueError) or raised_by_signal(error):  # else not in the main interpreter: nothing was replaced
                raise
        return self

    def __exit__(self, *_: object) -> None:
        later = self._later
        if later is None:
            return
        self._later = None
        error = _restore(self._replaced)
        for number, frame in later.came:
            try:
                self.handle(number, frame)
            except BaseException as raised:
                error = raised if error is None else error
        if error is not None:
            try:
                raise error
            finally:
                del error  # its traceback holds this frame

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Call the handler that was replaced."""
        numbers, handlers = self._replaced
        handlers[numbers.index(number)](number, frame)


class delayed(uninterrupted):
    """As :class:`uninterrupted`, for a step of the user's code that an exception would leave without a way to go on, as a generator.

    After :data:`LIMIT` seconds, or when the signal comes again, its handler runs at once: the code may never end. Seconds in which this
    process was stopped, or got no processor, do not count.
    """

    __slots__ = ()
    limited = True


LIMIT = 1.0
"""Seconds that :class:`delayed` delays a handler at most."""
ROUNDS = 20
"""Parts in which a thread waits for the limit. A stop of the process lengthens one part, whatever it takes."""


def _restore(replaced: Any, attempts: int = 8) -> BaseException | None:
    """Install the handlers again that were replaced. Returns the exception of one that ran meanwhile.

    This is a recursion and no loop: an exception between two rounds of a loop would leave handlers replaced forever.
    """
    try:
        deque(map(signal, *replaced), 0)  # in between no handler runs, except where `signal` looks for signals itself
    except BaseException as error:
        if attempts:
            try:
                _restore(replaced, attempts - 1)
            except BaseException:
                _restore(replaced, attempts - 1)
        return error
    return None


class _Later:
    """The handler within the block. It notes each signal once, as the system does with signals that are blocked."""

    def __init__(self, block: uninterrupted) -> None:
        self.came: list[tuple[int, FrameType | None]] = []
        self._block = block

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if all(number != other for other, _ in self.came):
            self.came.append((number, frame))
            if self._block.limited:
                start_new_thread(self._remind, (number,))  # no Thread object: the interrupted code may hold the locks of `threading`
        elif self._block.limited:
            self.came = [item for item in self.came if item[0] != number]
            self._block.handle(number, frame)

    def _remind(self, number: int) -> None:
        for _ in range(ROUNDS):
            time.sleep(LIMIT / ROUNDS)
            if self._block._later is not self or all(number != other for other, _ in self.came):  # the block has ended
                return
        pthread_kill(_main or 0, number)  # not to the process: the main thread may be in a system call


_EXIT = uninterrupted.__exit__.__code__


def raised_by_signal(error: BaseException) -> bool:
    """Whether a signal's handler has raised `error` on top of the code that it interrupted, and not that code itself.

    A handler's frame is known by its code, or by an argument: handlers are called with the frame that they interrupt. Exceptions that are
    no ``Exception``, as Ctrl-C, count as raised by a signal. To be asked where the exception is caught, before its traceback is shortened.
    """
    if not isinstance(error, Exception):
        return True
    entry, codes = error.__traceback__, [_code(handler) for handler in map(getsignal, (SIGINT, *_OTHERS)) if callable(handler)]
    below: FrameType | None = None
    while entry is not None:
        frame = entry.tb_frame
        if below is not None and (below.f_code is _EXIT or frame.f_code in codes or _got_frame(frame)):
            return True
        below, entry = frame, entry.tb_next
    return False


def _code(handler: object) -> CodeType | None:
    """The code of a handler: a function, a method, a partial object, or an object with ``__call__``."""
    handler = getattr(handler, "func", handler)
    if not hasattr(handler, "__code__") and not hasattr(handler, "__func__"):
        handler = type(handler).__call__
    found: CodeType | None = getattr(getattr(handler, "__func__", handler), "__code__", None)
    return found


def _got_frame(frame: FrameType) -> bool:
    """Whether an argument of a frame is a frame below it."""
    code, values = frame.f_code, frame.f_locals
    for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + 2]:
        value = values.get(name)
        for item in value if type(value) is tuple else (value,):
            if isinstance(item, FrameType):
                below = frame.f_back
                while below is not None and below is not item:
                    below = below.f_back
                if below is not None:
                    return True
    return False
