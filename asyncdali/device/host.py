"""The host device: GPU semantics in plain memory.

A stream is an ordered queue with a thread of its own, so that stages overlap, stream policies and lifetimes are real; the samples of a
kernel still run on the pipeline's worker threads, because a stream orders work and does not serialise samples.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .base import Device, Event, Stream
from .threads import OrderedThread


class HostEvent(Event):
    """Set by the stream's thread when it gets there."""

    def __init__(self) -> None:
        self._reached = threading.Event()

    def reached(self, _state: Any = None) -> None:
        self._reached.set()

    def wait(self, timeout: float | None = None) -> bool:
        return self._reached.wait(timeout)

    def done(self) -> bool:
        return self._reached.is_set()


class HostStream(Stream):
    """An ordered queue of calls on one thread."""

    def __init__(self, name: str, affinity: Sequence[int] | None = None):
        self._thread = OrderedThread(name, affinity)

    def submit(self, work: Callable[[Any], Any]) -> None:
        self._thread.submit(work)

    def record(self) -> HostEvent:
        event = HostEvent()
        self.submit(event.reached)
        return event

    def wait(self, event: Event) -> None:
        self.submit(lambda _state: event.wait())

    def close(self) -> None:
        self._thread.close()

    def join(self, timeout: float) -> bool:
        return self._thread.join(timeout)


class HostDevice(Device):
    """Host memory that plays the GPU."""

    name = "host"
    fuses_backends = True

    def __init__(self, allocate: Callable[[int], np.ndarray]):
        self._allocate = allocate

    def allocate(self, size: int) -> np.ndarray:
        return self._allocate(size)

    def stream(self, name: str) -> HostStream:
        return HostStream(name)

    def copy(self, destination: np.ndarray, source: np.ndarray, stream: Stream | None = None) -> None:
        if stream is None:
            np.copyto(destination, source)
        else:
            stream.submit(lambda _state: np.copyto(destination, source))

    def launch(self, stream: Stream, work: Callable[[Any], Any]) -> Event:
        stream.submit(work)
        return stream.record()
