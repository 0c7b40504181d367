"""One engine, as the training process sees it."""

from __future__ import annotations

import socket
import subprocess
from collections import deque
from collections.abc import Sequence

from asyncdali_workers.shared.system import Descriptors, Mapping

from ..child.server import STATUS
from ..child.source_calls import SOURCE_STATUS, SOURCE_STATUS_AT
from ..wire.blocks import ForeignBlocks
from .starting import Start


class EngineProcess:
    """One engine: its socket, and the parts of its memory that are used here. A replacement is another object."""

    def __init__(self, number: int, channel: socket.socket, alive: int, status: Mapping, descriptors: Descriptors):
        self.number = number
        self.channel = channel
        self.blocks = ForeignBlocks()
        self.returned: deque[int] = deque()
        """Leases to return to the engine."""
        self.unneeded: deque[int] = deque()
        """Batches of sources that the engine need not keep any more."""
        self.announced: set[int] = set()
        """Blocks of this process that the engine knows."""
        self.gone: list[int] = []
        """Blocks of this process that the engine must still forget."""
        self.ready = self.ended = False
        self.process = self.pid = 0
        """Process ids: of the process, which is known when it begins, and of an engine, which is known when it is ready."""
        self.pidfd = -1
        """A descriptor that is readable when the process has ended. -1: not known yet, or the system has none."""
        self.start: Start | None = None
        """The progress of its start, from the moment when it may build until it is ready."""
        self.reason = "died"
        self._status = status
        self._alive = alive
        self._descriptors = descriptors
        self._process: subprocess.Popen[bytes] | None = None

    def status(self) -> tuple[int, int, int, int]:
        """(iteration, what, number, sample): see ``server.STATUS``."""
        return STATUS.unpack_from(self._status.bytes.data, 0)

    def source_status(self) -> tuple[int, int, int]:
        """(number of the source, its iteration, sample): see ``source_calls.SOURCE_STATUS``."""
        return SOURCE_STATUS.unpack_from(self._status.bytes.data, SOURCE_STATUS_AT)

    def watched_by(self, descriptors: Sequence[int]) -> None:
        """The engine has sent :attr:`pidfd`."""
        for descriptor in descriptors:
            self.pidfd = self._descriptors.add(descriptor)

    def kill(self, reason: str) -> None:
        """Kill the engine by closing its pipe. The kernel then ends the process immediately, and the process's socket reports the end."""
        self.reason = reason
        if self._alive >= 0:
            self._descriptors.close(self._alive)
            self._alive = -1

    def close(self) -> None:
        """End the engine and release it. Memory that views refer to stays. Idempotent."""
        self.ended = True
        self.kill(self.reason)
        self.blocks.close()
        if self.channel.fileno() >= 0:
            self._descriptors.close(self.channel.detach())
        if self.pidfd >= 0:
            self._descriptors.close(self.pidfd)
            self.pidfd = -1
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
