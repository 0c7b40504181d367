"""Distribution of JPEGs between a GPU's engines and the CPU by load: both are to finish at the same time.

The speed of each decoder is measured on its last batches. The backlog is the number of pictures that the decoder has not finished. So the
lane of a sample depends on timing, and so do the last bits of the sample's pixels.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import perf_counter_ns as now

_WEIGHT = 0.25
"""Weight of the newest batch in a rate."""
_LEAST = 1 / 64
"""Least part of each. With less, its rate would no longer be measured."""


class _Side:
    """One of the two decoders: its rate, and its unfinished work."""

    def __init__(self, rate: float):
        self.rate = rate  # The engines and the CPU use the same unit: only the ratio matters until both were measured.
        self.pending = 0
        self._measured = False
        self._idle_since = 0

    def finished(self, count: int, began: int, over: int) -> None:
        self.pending -= count
        busy = over - max(began, self._idle_since)  # Before `_idle_since` the lane worked on an earlier batch.
        self._idle_since = over
        if count and busy > 0:
            rate = 1e6 * count / busy
            self.rate += (rate - self.rate) * (_WEIGHT if self._measured else 1.0)
            self._measured = True


class Share:
    """The parts of one batch. Each part is reported as finished once."""

    def __init__(self, balance: Balance, engines: int, host: int):
        self._balance = balance
        self._counts = {"engines": engines, "host": host}
        self._began = balance.begun(self._counts)

    def over(self, side: str) -> None:
        """Report that the "engines" or the "host" have finished their part. Reporting it again has no effect."""
        count = self._counts.pop(side, None)
        if count is not None:
            self._balance.finished(side, count, self._began)


class Balance:
    """The balance of one decoder of a built pipeline. Thread-safe. Rates are pictures per millisecond; `clock` returns nanoseconds."""

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
        """Record the numbers of pictures that the engines and the CPU get now."""
        return Share(self, engines, host)

    def begun(self, counts: dict[str, int]) -> int:
        with self._lock:
            for side, count in counts.items():
                self._sides[side].pending += count
            return self._clock()

    def finished(self, side: str, count: int, began: int) -> None:
        with self._lock:
            self._sides[side].finished(count, began, self._clock())
