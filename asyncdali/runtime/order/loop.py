"""The event loop: one per process, on its own thread, started with the first built pipeline.

The loop's thread schedules and completes iterations; it wakes up once per stage of an iteration. uvloop is used if it is installed;
``ASYNCDALI_LOOP=asyncio`` or ``=uvloop`` selects one.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable

from asyncdali_workers.interrupts import uninterrupted
from asyncdali_workers.processes.greenlets import refuse_greenlets
from asyncdali_workers.processes.python import keep_standard_descriptors
from asyncdali_workers.shared.calls import PIPELINES, needed

from ...system.descriptors import LOOP_DESCRIPTORS, require_descriptors


def _new_loop() -> asyncio.AbstractEventLoop:
    refuse_greenlets(processes=False)
    keep_standard_descriptors()
    require_descriptors(LOOP_DESCRIPTORS, "the event loop cannot be started")
    wish = os.environ.get("ASYNCDALI_LOOP", "")
    if wish not in ("", "asyncio", "uvloop"):
        raise ValueError(f"ASYNCDALI_LOOP={wish!r}: expected 'asyncio' or 'uvloop'")
    if wish != "asyncio":
        try:
            import uvloop

            return uvloop.new_event_loop()
        except (ImportError, OSError):  # not installed, or a sandbox refuses a system call of it
            if wish == "uvloop":
                raise
    with needed("epoll_create1", PIPELINES):
        return asyncio.new_event_loop()


class LoopThread:
    """An event loop running on a daemon thread."""

    def __init__(self) -> None:
        self.loop = _new_loop()
        self._thread = threading.Thread(target=self._run, name="asyncdali-loop", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def is_current(self) -> bool:
        """Whether the caller is on the loop's thread."""
        return threading.get_ident() == self._thread.ident

    def call(self, function: Callable[..., object], *args: object) -> None:
        """Schedule `function` on the loop's thread. May be called from any thread."""
        self.loop.call_soon_threadsafe(function, *args)

    def call_later(self, seconds: float, function: Callable[..., object], *args: object) -> None:
        """Call `function` in some seconds. To be called on the loop's thread."""
        self.loop.call_later(seconds, function, *args)

    def add_reader(self, descriptor: int, function: Callable[..., object], *args: object) -> None:
        """Call `function` whenever `descriptor` is readable. To be called on the loop's thread."""
        self.loop.add_reader(descriptor, function, *args)

    def remove_reader(self, descriptor: int) -> None:
        """Undo :meth:`add_reader`. To be called on the loop's thread."""
        self.loop.remove_reader(descriptor)


_lock = threading.Lock()
_shared: LoopThread | None = None
_inherited: list[LoopThread] = []
"""Loops of parent processes. They are neither used nor closed here, because their descriptors are shared with the parent."""


def _after_fork() -> None:
    global _lock, _shared
    _lock = threading.Lock()
    if _shared is not None:
        _inherited.append(_shared)
        _shared = None


os.register_at_fork(after_in_child=_after_fork)


def shared_loop() -> LoopThread:
    """The process's loop thread. A forked child gets its own."""
    global _shared
    with _lock:
        if _shared is None:
            with uninterrupted():  # an interrupt would lose its thread and descriptors
                _shared = LoopThread()
        return _shared
