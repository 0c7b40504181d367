"""Signals of the processes that are started here: workers, engines, and the processes that fork them.

Terminals, shells, schedulers and time limits send signals to a whole process group. The program handles them for all of its processes. So

* a process begins with all signals blocked (:func:`blocked`), and unblocks them when its own handlers are installed (:func:`settle`).
  Otherwise a signal in its first milliseconds would end it, or would run a handler of the program in it;
* its handlers do nothing. A handler, and not SIG_IGN, because a program that the user's code starts would inherit SIG_IGN;
* a process that the user's code forks gets the default handlers before a signal can reach it, so that the code can end it.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

GROUP = (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM, signal.SIGALRM)
"""Signals that are sent to a whole process group."""


def _nothing(number: int, frame: object) -> None:
    """The handler of :data:`GROUP`."""


@contextmanager
def blocked() -> Iterator[None]:
    """A process that is started in the block begins with all signals blocked. It must call :func:`settle`.

    To be used inside of ``uninterrupted()``: a handler of the program may raise at the end of the block.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    parent = os.getpid()
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        yield
    finally:
        if os.getpid() == parent:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def settle() -> None:
    """Do nothing at signals of the process group, and remove the program's handlers of other signals. May be called again.

    A signal that the program ignores stays ignored, here and in programs that the user's code starts.
    """
    signal.set_wakeup_fd(-1)
    for number in range(1, signal.NSIG):
        try:
            handler = signal.getsignal(number)
            if number in GROUP and handler != signal.SIG_IGN:
                signal.signal(number, _nothing)
                signal.siginterrupt(number, False)  # code in C meets no interrupted system calls
            elif callable(handler):
                signal.signal(number, signal.SIG_DFL)
        except (OSError, ValueError):  # the C library keeps some numbers for itself
            pass
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


_forking = threading.local()


def _before_fork() -> None:
    if any(signal.getsignal(number) is _nothing for number in GROUP):
        _forking.mask = signal.pthread_sigmask(signal.SIG_BLOCK, GROUP)


def _after_fork() -> None:
    mask, _forking.mask = getattr(_forking, "mask", None), None
    if mask is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _after_fork_in_child() -> None:
    ours = [number for number in GROUP if signal.getsignal(number) is _nothing]
    for number in ours:
        signal.signal(number, signal.SIG_DFL)
    _after_fork()
    if signal.SIGINT in ours:  # last: an exception that leaves this function would be ignored
        signal.signal(signal.SIGINT, signal.default_int_handler)


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child)
