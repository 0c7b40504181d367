"""Steps that Ctrl-C must not interrupt."""

from __future__ import annotations

import os
import threading

# The C module, because the functions of `signal` convert to enumerations: 50 calls of Python functions for each use of `uninterrupted`.
from _signal import SIGINT, getsignal, signal, valid_signals
from typing import Any

_main = threading.main_thread().ident
_OTHERS = sorted(int(number) for number in valid_signals() if number not in (SIGINT, 9, 19) and number < 32)
"""Signals that may have a handler in Python, except for Ctrl-C and the real-time signals."""


def _after_fork() -> None:
    global _main
    _main = threading.get_ident()


os.register_at_fork(after_in_child=_after_fork)


def only_ctrl_c() -> bool:
    """Whether :class:`uninterrupted` delays all interrupts of the calling thread. A handler in Python of another signal may raise, too."""
    return threading.get_ident() != _main or not any(map(callable, map(getsignal, _OTHERS)))


class uninterrupted:
    """Delays an interrupt until the end of the block. Only the main thread is ever interrupted."""

    __slots__ = ("_handler", "_later")

    def __enter__(self) -> None:
        self._later: _Later | None = None
        if threading.get_ident() != _main:
            return
        handler = getsignal(SIGINT)
        if not callable(handler) or isinstance(handler, _Later):
            return
        later = _Later()
        try:
            self._handler = handler
            self._later = later  # set before the handler changes: after an interrupt in between there is nothing to undo
            signal(SIGINT, later)
        except ValueError:  # not in the main interpreter
            self._later = None

    def __exit__(self, *_: object) -> None:
        later = self._later
        if later is not None:
            signal(SIGINT, self._handler)
            if later.came is not None:
                self._handler(*later.came)


class _Later:
    came: tuple[int, Any] | None = None

    def __call__(self, number: int, frame: Any) -> None:
        self.came = (number, frame)
