"""What the executor uses of a device: streams that run calls in order, and events to wait for.

There are two: `host` (plain memory, everywhere) and `cuda`. What is particular to a GPU (memory, lists of commands, kernels) is used as
such, by `runtime/device_segments.py` and the rooms it names; only what both have stands here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class Event(Protocol):
    """A point in a stream's order of work."""

    def wait(self) -> object:
        """Block the calling thread (interpreter lock released) until the work before the event is done."""

    def when_done(self, call: Callable[[], None]) -> None:
        """Make a short `call`, on any thread, when :meth:`wait` no longer blocks for long. An event that cannot tell calls at once."""


class Stream(Protocol):
    """An ordered queue of calls on a thread of its own."""

    @property
    def handle(self) -> int | None:
        """The native stream, for users who order their own work behind it; None on the host."""

    def submit(self, work: Callable[[Any], Any]) -> object:
        """Call ``work(worker_state)`` after everything submitted before."""

    def close(self) -> None:
        """Take no more work; the thread ends when what is queued is done."""

    def join(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds for the end after :meth:`close`. False if that was too short."""


class Device(Protocol):
    """Where mixed and gpu operators run."""

    def stream(self, name: str) -> Stream:
        """A new stream, whose thread has this `name`."""
