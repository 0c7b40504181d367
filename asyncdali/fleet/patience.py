"""The time that a trainer waits for an actor before it also sends the request to a second actor."""

from __future__ import annotations

import math
import statistics
from collections import deque

REMEMBERED = 64
"""Number of answer times. Their median decides which requests are slow."""
RENEWED = 8
"""The median is computed again after this number of answers: a median of 64 times costs as much as sending a request."""
KNOWN = 4
"""Number of answer times that have a usable median."""
UNKNOWN = 10.0
"""Seconds to wait while few answer times are known."""
SHORTEST = 0.05
"""Seconds to wait at least. The system's scheduler causes shorter delays."""


class Patience:
    """`seconds` to wait: a multiple of the median answer time. None: never send to a second actor."""

    def __init__(self, multiple: float | None):
        self._multiple = multiple
        self.seconds = math.inf if multiple is None else UNKNOWN
        self._times: deque[float] = deque(maxlen=REMEMBERED)
        self._left = KNOWN  # answers until the median is computed

    def learn(self, took: float) -> None:
        """An answer has taken so many seconds."""
        self._times.append(took)
        self._left -= 1
        if not self._left and self._multiple is not None:
            self.seconds = max(SHORTEST, self._multiple * statistics.median(self._times))
        if self._left <= 0:
            self._left = 1 if len(self._times) < REMEMBERED else RENEWED
