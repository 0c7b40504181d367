"""Ends all workers within a second, whatever they are doing."""

from __future__ import annotations

import os
import select
import signal
import time

from ..channels import Channels
from ..shared.control import CLOSING, TASK_ID
from .members import Member
from .replacement import WorkerProcesses

ASKED_SECONDS = 0.3
"""Seconds that idle workers get to end without a signal."""
BUSY_SECONDS = 0.02
"""The same for busy workers."""


def end_workers(members: list[Member], processes: WorkerProcesses, channels: Channels) -> None:
    """Ask all workers to end, then kill the rest. Runs on the closing thread; it holds the pool's lock if it could get it."""
    living = [member for member in members if member.alive]
    if not living:
        return
    channels.control.header[CLOSING] = 1
    for ring in channels.rings:
        os.eventfd_write(ring.tokens, 4 * len(living))
    idle = [member for member in living if member.ready and not member.block[TASK_ID]]
    _wait_for_end(idle, ASKED_SECONDS)
    remaining = _wait_for_end(living, BUSY_SECONDS)
    for member in remaining:
        member.send_signal(signal.SIGKILL)
    _wait_for_end(remaining, 5)
    for member in living:
        processes.forget(member)


def _wait_for_end(members: list[Member], seconds: float) -> list[Member]:
    """The workers that have not ended within the given time."""
    remaining = {member.pidfd: member for member in members}
    poll = select.poll()
    for pidfd in remaining:
        poll.register(pidfd, select.POLLIN)
    limit = time.monotonic() + seconds
    while remaining and (left := limit - time.monotonic()) > 0:
        for pidfd, _ in poll.poll(left * 1000):
            poll.unregister(pidfd)
            del remaining[pidfd]
    return list(remaining.values())
