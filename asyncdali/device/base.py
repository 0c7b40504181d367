"""The device interface: memory, streams, events. The executor knows a device only through it.

``host`` implements it in plain memory (everywhere); a CUDA implementation has the same shape.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np


class Event(ABC):
    """A point in a stream's order of work."""

    @abstractmethod
    def wait(self, timeout: float | None = None) -> bool:
        """Block the calling thread (GIL released) until the work before the event is done."""

    @abstractmethod
    def done(self) -> bool:
        """Whether the work before the event is done; never blocks."""

    def when_done(self, call: Callable[[], None]) -> None:
        """Make a short `call` once :meth:`wait` need not block for long, on any thread. Nobody can be told by a device: at once."""
        call()


class Stream(ABC):
    """An ordered queue of work on a device."""

    handle: int | None = None
    """The native stream, for users who order their own work behind it; None where there is none."""

    @abstractmethod
    def submit(self, work: Callable[[Any], Any]) -> None:
        """Run ``work(worker_state)`` after everything submitted before."""

    @abstractmethod
    def record(self) -> Event:
        """An event after everything submitted so far."""

    @abstractmethod
    def wait(self, event: Event) -> None:
        """Work submitted from now on starts after `event`."""

    @abstractmethod
    def close(self) -> None:
        """No more work; ends once what is queued is done."""

    @abstractmethod
    def join(self, timeout: float) -> bool:
        """Wait for the end after :meth:`close`; False on time-out."""


class Device(ABC):
    """Where mixed and gpu operators run."""

    name: str
    fuses_backends = False
    """Whether mixed and gpu operators may share a segment: kernels run sample by sample, so that a sample stays in cache."""

    @abstractmethod
    def allocate(self, size: int) -> np.ndarray:
        """`size` bytes of this device's memory."""

    @abstractmethod
    def stream(self, name: str) -> Stream:
        """A new stream."""

    @abstractmethod
    def copy(self, destination: np.ndarray, source: np.ndarray, stream: Stream | None = None) -> None:
        """Copy bytes between host and device or within the device, ordered on `stream` (at once when None)."""

    @abstractmethod
    def launch(self, stream: Stream, work: Callable[[Any], Any]) -> Event:
        """Queue device work on `stream`; the event is its completion."""
