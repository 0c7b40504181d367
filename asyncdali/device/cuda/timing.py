"""Measures the working time of a stream, by the device itself and in some iterations. No thread waits for the result.

Events with times cost more than others (docs/gpu.md), so most iterations have none: one iteration in 16 records two.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections import deque

from ...system import forks
from .commands import Commands
from .driver import Driver

log = logging.getLogger("asyncdali")


class StreamTimes:
    """Times of pieces of work on one stream."""

    def __init__(self, driver: Driver, device: int):
        self._driver, self._device = driver, device
        self._free: list[int] = []
        self._under_way: deque[tuple[int, int]] = deque()
        self._lock = threading.Lock()
        self._pid = forks.pid

    def mark(self, commands: Commands) -> int:
        """Add a mark to `commands`: a piece of work begins with the next command, or has ended with the last one."""
        with self._lock:
            event = self._free.pop() if self._free else self._driver.timer_create()
        commands.record(event)
        return event

    def queued(self, begun: int, ended: int) -> None:
        """All the work between two marks has been queued."""
        self._under_way.append((begun, ended))

    def taken(self) -> list[int]:
        """Nanoseconds of the pieces of work that have completed since the last call."""
        found: list[int] = []
        if not self._under_way:
            return found
        with self._lock:
            self._driver.use(self._device)
            while self._under_way and self._driver.event_done(self._under_way[0][1]):
                begun, ended = self._under_way.popleft()
                found.append(round(1e6 * self._driver.elapsed(begun, ended)))
                self._free += (begun, ended)
        return found

    def __del__(self) -> None:
        if forks.pid == self._pid and not sys.is_finalizing():
            while self._under_way:  # a thread that ends its work may queue the last piece meanwhile
                self._free += self._under_way.popleft()
            while self._free:
                try:
                    self._driver.event_destroy(self._free.pop())
                except Exception as error:
                    log.debug("an event could not be destroyed: %s", error)
