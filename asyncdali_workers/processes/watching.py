"""How the parent of a process notices its end."""

from __future__ import annotations

import os
import signal

from ..shared.calls import has_pidfds
from ..shared.system import Descriptors

UNKNOWN = -1
"""Exit status of a process whose parent is gone, or whose status another party has read."""


def wait_status(pid: int) -> int:
    """Reap a child. UNKNOWN if another party did."""
    try:
        return os.waitpid(pid, 0)[1]
    except ChildProcessError:
        return UNKNOWN


class Watch:
    """Makes the descriptor that becomes readable when a process ends: a pidfd, or the end of a pipe if the system refuses pidfds.

    It is made before the process, which inherits `held`, the other end of the pipe (-1: there is none). A child that a callable forks
    closes its copy; see :class:`Descriptors`. A context, which closes `held` here.
    """

    def __init__(self) -> None:
        self._ended = self.held = -1
        if not has_pidfds():
            self._ended, self.held = os.pipe2(os.O_CLOEXEC)

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in (self._ended, self.held):
            if descriptor >= 0:
                os.close(descriptor)
        self._ended = self.held = -1

    def of(self, pid: int) -> int:
        """The descriptor. The caller closes it."""
        if self._ended >= 0:
            ended, self._ended = self._ended, -1
            return ended
        try:
            return os.pidfd_open(pid)
        except OSError:
            os.kill(pid, signal.SIGKILL)
            wait_status(pid)
            raise


def hold(held: int, descriptors: Descriptors) -> None:
    """Runs in the watched process: it keeps its end of the pipe."""
    if held >= 0:
        os.set_inheritable(held, False)
        descriptors.open.add(held)
