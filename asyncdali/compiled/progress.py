"""The line on stderr that says why a program waits: kernels are being compiled, once on this machine.

Nothing appears for compilations of less than two seconds. In a terminal the line has a bar and is updated after each kernel. In a file
or a pipe there are two lines, one after two seconds and one at the end. ``ASYNCDALI_QUIET=1`` turns both off. Which kernels are needed
is learned while others are compiled, so the number that is known grows.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator

from ..messages.status_line import StatusLine

_SILENT_S = 2.0


class Progress:
    """Tells how many kernels of an expected number are compiled. `where`: the folder that keeps them."""

    def __init__(self, where: str):
        self._where = where
        self._total = self._done = 0
        self._began = 0.0
        self._shown = self._ended = False
        self._lock = threading.Lock()
        self._line = StatusLine(sys.stderr)
        self._timer: threading.Timer | None = None
        self.is_counted = False
        """Whether the caller counts the kernels, because other processes compile some of them."""

    @contextlib.contextmanager
    def counted_by_caller(self) -> Iterator[None]:
        """In the block, the caller calls :meth:`step` for each kernel."""
        self.is_counted = True
        try:
            yield
        finally:
            self.is_counted = False

    def expect(self, kernels: int) -> None:
        """More kernels will be compiled. The time counts from the first one."""
        with self._lock:
            self._total += kernels
            if self._timer is None:
                self._began = time.monotonic()
                self._timer = threading.Timer(_SILENT_S, self._late)
                self._timer.daemon = True
                self._timer.name = "asyncdali-compiling"
                if os.environ.get("ASYNCDALI_QUIET", "0") in ("", "0") and sys.stderr is not None:
                    self._timer.start()

    def step(self) -> None:
        """A kernel is compiled."""
        with self._lock:
            self._done += 1
            if self._shown:
                self._line.draw(f"{self._text()} {self._bar()}")

    def end(self) -> None:
        """No kernel is compiled any more."""
        if self._timer is not None:
            self._timer.cancel()
        with self._lock:
            self._ended = True  # the timer may have fired already, and wait for the lock
            if not self._shown:
                return
            self._shown = False
            took = time.monotonic() - self._began
            self._line.end(f"asyncdali: compiled {self._done} of {_kernels(self._total)} in {took:.0f} s, kept in {self._where}")

    def _late(self) -> None:
        with self._lock:
            if self._ended:
                return
            self._shown = True
            self._line = StatusLine(sys.stderr)
            if self._line.is_terminal():
                self._line.draw(f"{self._text()} {self._bar()}")
            else:
                self._line.end(self._text())

    def _text(self) -> str:
        return f"asyncdali: compiling kernels, once on this machine: {self._done} of {self._total} so far"

    def _bar(self) -> str:
        filled = 10 * self._done // max(1, self._total)
        return f"[{'#' * filled:.<10}]"


def _kernels(number: int) -> str:
    return f"{number} kernel{'' if number == 1 else 's'}"


_open: list[Progress] = []
"""The progress of a block of :func:`shown`; at most one of a process is shown at a time."""


def is_expected() -> bool:
    """Whether a block of :func:`shown` is open."""
    return bool(_open)


@contextlib.contextmanager
def shown(where: str) -> Iterator[Progress]:
    """Show the progress of all kernels that are compiled while the block runs. `where`: the folder that keeps them."""
    progress = Progress(where)
    _open.append(progress)
    try:
        yield progress
    finally:
        _open.remove(progress)
        progress.end()


@contextlib.contextmanager
def of_one(where: str) -> Iterator[None]:
    """Show the progress of one kernel, which is compiled when it is first needed."""
    if _open and _open[-1].is_counted:
        yield
        return
    with contextlib.nullcontext(_open[-1]) if _open else shown(where) as progress:
        progress.expect(1)
        yield
        progress.step()
