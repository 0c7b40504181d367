"""The parent's view of its workers."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass

from ..shared.calls import has_pidfds
from ..shared.control import BUSY, EXTENTS, NOTED_EXTENTS, RESTARTS, SAMPLES, SINCE, TASK_ID, TASKS, WAIT, Block
from .watching import UNKNOWN


@dataclass
class Member:
    """One worker's place in the pool. Its process may be replaced."""

    index: int
    block: Block  # the worker's claim block
    pid: int = 0
    pidfd: int = -1
    incarnation: int = 0
    alive: bool = False
    ready: bool = False
    failures: int = 0  # consecutive deaths before it was ready
    gone: str | None = None  # the reason why there is no replacement
    vacant: bool = False  # the worker is gone, and another attempt to start one may succeed
    retry_at: float = 0.0  # earliest time of the next attempt while other workers work
    tries: int = 0  # failed attempts since it was ready
    condemned: int = 0  # the task that exceeded its time, for which the worker is being killed
    kill_at: float = 0.0
    reported: bytes = b""  # the worker's last message

    def extents(self) -> list[tuple[int, int]]:
        """Extents that it allocated for a task that it did not finish."""
        words = [(self.block[word], self.block[word + 1]) for word in range(EXTENTS, EXTENTS + 2 * NOTED_EXTENTS, 2)]
        return [(offset, size) for offset, size in words if offset]

    def clear(self) -> None:
        """The process that wrote the block is gone."""
        self.block[TASK_ID] = 0
        self.block[SINCE] = 0
        for word in range(EXTENTS, EXTENTS + 2 * NOTED_EXTENTS):
            self.block[word] = 0

    def send_signal(self, number: int) -> None:
        try:
            if has_pidfds():
                signal.pidfd_send_signal(self.pidfd, number)
            else:
                os.kill(self.pid, number)  # the process is not reaped before its end is noticed
        except (ProcessLookupError, OSError):
            pass  # the process is already gone

    def statistics(self) -> dict[str, float | int | None]:
        block = self.block
        return {
            "pid": self.pid if self.alive else None,
            "tasks": block[TASKS],
            "samples": block[SAMPLES],
            "busy_seconds": block[BUSY] / 1e9,
            "queue_wait_seconds": block[WAIT] / 1e9,
            "restarts": block[RESTARTS],
        }


def manner_of_death(status: int) -> str:
    """An exit status in words."""
    if status == UNKNOWN:
        return "ended with an unknown exit status"
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        try:
            name = signal.Signals(number).name
        except ValueError:
            name = f"signal {number}"
        hint = "; the machine may have run out of memory" if number == signal.SIGKILL else ""
        return f"was killed by {name}{hint}"
    return f"exited with code {os.WEXITSTATUS(status)}"
