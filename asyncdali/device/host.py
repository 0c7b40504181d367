"""The host device: GPU semantics in plain memory.

A stream is an ordered queue with its own thread, so stages overlap, and stream policies and lifetimes are real. The samples of a kernel
still run on the pipeline's worker threads, because a stream orders work and does not serialise samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from ..batch import Batch
from .base import DevicePart
from .buffers import BufferPool
from .threads import OrderedThread, WorkerThreads

FUSES_BACKENDS = True
"""Mixed and gpu operators may share a segment: kernels run sample by sample, so a sample stays in the cache."""


class HostStream(OrderedThread):
    """An ordered queue of calls on one thread."""

    handle: int | None = None


class HostDevice:
    """Host memory in the role of a GPU."""

    parts: tuple[DevicePart, ...] = ()

    def __init__(self) -> None:
        self.pinned = BufferPool()

    def expect(self, depth: int) -> None:
        """Its memory is not allocated ahead."""

    def collect_reports(self, workers: WorkerThreads) -> None:
        """Its threads report what they have done."""

    def entered(self) -> AbstractContextManager[None]:
        """Plain memory has no current device."""
        return nullcontext()

    def complete(self, batches: Sequence[Batch]) -> None:
        """An iteration that is finished has made its batches."""

    def release(self) -> None:
        """Free its memory that is not in use. Later memory is not kept for reuse. The threads and streams have ended."""
        self.pinned.close()

    def stream(self, name: str) -> HostStream:
        return HostStream(name)
