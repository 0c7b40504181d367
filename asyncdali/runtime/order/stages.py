"""The threads and streams of one pipeline."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from ...device.base import Stream
from ...device.host import HostStream
from ...device.select import device_of
from ...device.threads import OrderedThread, Reports, WorkerThreads
from ...types import StreamPolicy

if TYPE_CHECKING:
    from ...device.cuda.device import CudaDevice

CLOSING = 0.9
"""Seconds that closing waits for the threads of a pipeline. A callback of the user may never return."""


class HasThreads(Protocol):
    """A part of a pipeline that has threads."""

    def close(self) -> None: ...
    def join(self, timeout: float) -> object: ...


class Stages:
    """Worker threads, the CPU's stage thread, and the streams.

    Attributes:
        name: beginning of the names of its threads.
        gpu: the GPU; None: the host device.
        device: of mixed and gpu operators.
        reports: ends of jobs, for the thread that talks to engines. None: the threads report them.
        pinned: whether the threads have processors of their own.
        workers: compute pixels and read files.
        cpu: plans the CPU's segments.
        waits: waits for what has no thread of its own.
    """

    def __init__(
        self, name: str, num_threads: int, affinity: Sequence[int] | None, policy: StreamPolicy, gpu: CudaDevice | None
    ):
        self.workers = WorkerThreads(num_threads, name, affinity)
        self.cpu = HostStream(f"{name}-cpu", affinity)
        self.waits = OrderedThread(f"{name}-device")
        self.policy = policy
        self.name = name
        self.gpu = gpu
        self.pinned = bool(affinity)
        self.device = device_of(gpu)
        self.reports: Reports | None = None
        self._streams: dict[str, Stream] = {}

    def stream(self, key: str) -> Stream:
        """The stream of that name. "cpu": the CPU's stage thread."""
        if key == "cpu":
            return self.cpu
        if key not in self._streams:
            self._streams[key] = self.device.stream(f"{self.name}-{key}")
        return self._streams[key]

    def collect_reports(self) -> None:
        """Collect the ends of jobs in :attr:`reports`, if the device gains by it. To be called before operators are made."""
        self.reports = self.device.collect_reports(self.workers)

    def names(self) -> dict[int, str]:
        """Names of the streams, by their ids."""
        return {id(stream): key for key, stream in [("cpu", self.cpu), *self._streams.items()]}

    def close(self) -> None:
        """End the threads within :data:`CLOSING` seconds, and free the device's memory that is not in use."""
        ended = close_all([self.workers, self.cpu, *self._streams.values(), self.waits, *self.device.parts])
        if ended:
            self.device.release()


def close_all(parts: Iterable[HasThreads]) -> bool:
    """Close the parts, then wait for their threads, at most :data:`CLOSING` seconds for all. False: some have not ended."""
    parts = list(parts)
    for part in parts:
        part.close()
    deadline = time.monotonic() + CLOSING
    ended = [part.join(max(0.0, deadline - time.monotonic())) for part in parts]
    return False not in ended  # a part that says nothing has no thread of its own
