"""How long a trainer waits for an engine before it asks a second one."""

from __future__ import annotations

import math
import statistics

from asyncdali.fleet import patience
from asyncdali.fleet.patience import Patience


def test_few_times_say_nothing():
    waits = Patience(3.0)
    for _ in range(patience.KNOWN - 1):
        assert waits.seconds == patience.UNKNOWN
        waits.learn(1.0)
    waits.learn(2.0)
    assert waits.seconds == 3.0


def test_the_wait_follows_the_median_of_the_last_times():
    waits, times = Patience(2.0), []
    for k in range(3 * patience.REMEMBERED):
        before = times[-patience.REMEMBERED :]
        times.append(1.0 + k)
        waits.learn(times[-1])
        if len(times) >= patience.KNOWN:
            recent = [
                2.0 * statistics.median(times[max(0, n - patience.REMEMBERED) : n]) for n in range(len(times) - 7, len(times) + 1) if n > 0
            ]
            assert waits.seconds in recent
            if len(before) < patience.REMEMBERED - 1:
                assert waits.seconds == recent[-1]


def test_short_times_and_no_second_engine():
    waits, never = Patience(3.0), Patience(None)
    for _ in range(10):
        waits.learn(1e-4)
        never.learn(1e-4)
    assert waits.seconds == patience.SHORTEST and never.seconds == math.inf
