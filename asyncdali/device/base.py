"""The device interface that the executor uses: streams that run calls in order, and events to wait for.

There are two devices: `host` (plain memory, everywhere) and `cuda`. This module has only the interface that both share.
`runtime/gpu/device_segments.py` and the
modules that it names use memory, command lists and kernels of a GPU directly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ..batch import Batch
    from .buffers import BufferPool
    from .threads import Reports, WorkerState, WorkerThreads


class Event(Protocol):
    """A point in a stream's order of work."""

    def wait(self) -> object:
        """Block the calling thread (interpreter lock released) until the work before the event is done."""

    def is_over(self) -> bool:
        """Whether :meth:`wait` is known to return immediately. The device is not queried."""

    def when_done(self, call: Callable[[], None]) -> None:
        """Make a short `call` on any thread, when :meth:`wait` will soon return. An event that cannot predict this calls immediately."""


class Stream(Protocol):
    """An ordered queue of calls with its own thread."""

    @property
    def handle(self) -> int | None:
        """The native stream, for users who order their own work after it. None on the host."""

    def submit(self, work: Callable[[WorkerState], object]) -> object:
        """Call ``work(worker_state)`` after all calls submitted before."""

    def close(self) -> None:
        """Accept no more calls. The thread ends when the queued calls are done."""

    def join(self, timeout: float) -> bool:
        """After :meth:`close`, wait up to `timeout` seconds for the end. Returns False on a time-out."""


class DevicePart(Protocol):
    """A part of a device that has threads."""

    def close(self) -> None: ...
    def join(self, timeout: float) -> object: ...


class Device(Protocol):
    """The device of mixed and gpu operators."""

    @property
    def pinned(self) -> BufferPool:
        """Memory for batches of CPU operators."""

    @property
    def parts(self) -> Sequence[DevicePart]:
        """Objects to be closed with the pipeline."""

    def expect(self, depth: int) -> None:
        """Announce the number of iterations in flight."""

    def collect_reports(self, workers: WorkerThreads) -> Reports | None:
        """Let the ends of its work and of the jobs of `workers` be collected for one thread. None: the threads report them.

        To be called before operators are made.
        """

    def entered(self) -> AbstractContextManager[None]:
        """Make this the calling thread's device within the block. Then restore the previous one, because the thread is the user's."""

    def complete(self, batches: Sequence[Batch]) -> None:
        """Wait (with the interpreter lock released) until the device has made `batches`. Raises the error of the work."""

    def release(self) -> None:
        """Free its memory that is not in use. Later memory is not kept for reuse. The threads and streams have ended."""

    def stream(self, name: str) -> Stream:
        """A new stream whose thread has this `name`."""
