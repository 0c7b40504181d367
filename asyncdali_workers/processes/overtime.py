"""Callables that take longer than `worker_timeout`.

It runs on any thread that waits for a batch, with the pool's lock held; there is no timer. A signal makes the worker write its stack into
the shared file and then kills it.
"""

from __future__ import annotations

import os
import signal
import time

from ..channels import Channels
from ..interrupts import uninterrupted
from ..shared.control import SINCE, TASK_ID
from .child import STACK_SIGNAL
from .members import Member

STACK_SECONDS = 1.0
"""Seconds that a worker over its time gets to write its stack."""


class Overtime:
    """timeout: seconds that a callable may take; None: no limit."""

    def __init__(self, timeout: float | None, members: list[Member], channels: Channels):
        self._timeout, self._members = timeout, members
        self._memory, self._stack = channels.memory, channels.control.layout.stack

    def until_next_look(self, timeout: float | None) -> float | None:
        """Seconds to wait: until the caller's limit, or until a callable exceeds its time."""
        if self._timeout is None:
            return timeout
        limits = [] if timeout is None else [timeout]
        now = time.monotonic()
        for member in self._members:
            if not member.alive:
                continue
            since = member.block[SINCE]
            if member.condemned:
                limits.append(member.kill_at - now)
            elif since and member.block[TASK_ID]:
                limits.append(since / 1e9 + self._timeout - now)
        limits.append(self._timeout)  # an idle worker may start a task now, which would end in time
        return max(0.0, min(limits)) + 0.001

    def look_after_hung(self) -> None:
        """Make a worker over its time write its stack, which ends it. If it does not end, kill it."""
        if self._timeout is None:
            return
        now = time.monotonic()
        for member in self._members:
            if member.condemned and member.alive and now >= member.kill_at:
                member.send_signal(signal.SIGKILL)
        if any(member.condemned for member in self._members):
            return  # one at a time, because there is memory for one stack
        for member in self._members:
            since, task = member.block[SINCE], member.block[TASK_ID]
            if member.alive and since and task and now - since / 1e9 >= self._timeout:
                with uninterrupted():
                    os.lseek(self._memory, self._stack, os.SEEK_SET)
                    member.condemned, member.kill_at = task, now + STACK_SECONDS
                    member.send_signal(STACK_SIGNAL)
                return
