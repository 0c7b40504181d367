"""A simulated training step: pure Python for some milliseconds, which holds the interpreter all the time."""

from __future__ import annotations

import statistics
import time


def _spin(rounds: int) -> int:
    total = 0
    for k in range(rounds):
        total += k & 3
    return total


class Step:
    """A training step of `milliseconds` of pure Python. It is calibrated while nothing else runs in this process."""

    def __init__(self, milliseconds: float):
        self.milliseconds = milliseconds
        self._rounds = 20_000
        seconds = min(self._time() for _ in range(5))
        self._rounds = max(1, round(self._rounds * milliseconds / 1e3 / seconds))
        self.alone = statistics.median(self._time() for _ in range(5)) if milliseconds else 0.0
        """Seconds of a step that runs alone."""

    def _time(self) -> float:
        start = time.perf_counter()
        _spin(self._rounds)
        return time.perf_counter() - start

    def run(self) -> float:
        """Do one step and return its seconds."""
        return self._time() if self.milliseconds else 0.0
