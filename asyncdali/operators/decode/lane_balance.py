"""Sharing JPEGs between a GPU's engines and the CPU by load: both are to be through at the same time.

How fast each is shows from its last batches, how far behind from those that it has not finished. So the lane of a sample, and with it the
last bits of its pixels, depends on time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import perf_counter_ns as now

_WEIGHT = 0.25
"""Of the newest batch in a rate."""
_LEAST = 1 / 64
"""Neither gets less: its rate would not be known any more."""


class _Side:
    """One of the two: its rate, and what it has not finished."""

    def __init__(self, rate: float):
        self.rate = rate  # of the engines and of the CPU in the same unit: only their ratio counts until both were measured
        self.pending = 0
        self._measured = False
        self._idle_since = 0

    def finished(self, count: int, began: int, over: int) -> None:
        self.pending -= count
        busy = over - max(began, self._idle_since)  # before, it was at work on an earlier batch
        self._idle_since = over
        if count and busy > 0:
            rate = 1e6 * count / busy
            self.rate += (rate - self.rate) * (_WEIGHT if self._measured else 1.0)
            self._measured = True


class Share:
    """What the two got of one batch; each is told to be over once."""

    def __init__(self, balance: Balance, engines: int, host: int):
        self._balance = balance
        self._counts = {"engines": engines, "host": host}
        self._began = balance.begun(self._counts)

    def over(self, side: str) -> None:
        """The "engines" or the "host" have finished their part. Saying it again does nothing."""
        count = self._counts.pop(side, None)
        if count is not None:
            self._balance.finished(side, count, self._began)


class Balance:
    """Of one decoder of a built pipeline; used by several threads. Rates are pictures per millisecond; `clock` gives nanoseconds."""

    def __init__(self, engines_rate: float, host_rate: float, clock: Callable[[], int] = now):
        self._sides = {"engines": _Side(engines_rate), "host": _Side(host_rate)}
        self._clock = clock
        self._lock = threading.Lock()

    def part(self, count: int) -> float:
        """The part of the next `count` pictures that the engines should get."""
        with self._lock:
            engines, host = self._sides["engines"], self._sides["host"]
            everything = count + engines.pending + host.pending
            wanted = everything * engines.rate / max(engines.rate + host.rate, 1e-9) - engines.pending
            return min(max(wanted / max(count, 1), _LEAST), 1 - _LEAST)

    def share(self, engines: int, host: int) -> Share:
        """The engines and the CPU were given so many pictures now."""
        return Share(self, engines, host)

    def begun(self, counts: dict[str, int]) -> int:
        with self._lock:
            for side, count in counts.items():
                self._sides[side].pending += count
            return self._clock()

    def finished(self, side: str, count: int, began: int) -> None:
        with self._lock:
            self._sides[side].finished(count, began, self._clock())
