"""The number of engines that trainers need."""

from __future__ import annotations

WAITING = 0.05
"""Fraction of its time that a trainer may wait for batches. Above this fraction, more engines are needed."""
IDLE = 0.01
"""If every trainer waits for less than this fraction of its time, there are enough engines."""
BUSY = 0.7
"""Fraction of their time in which engines work. Below this fraction, more engines would not shorten the wait."""


def wanted(count: int, least: int, most: int, waiting: float, busy: float) -> int:
    """The number of engines that trainers need.

    Args:
        count: the number of engines now.
        least, most: limits of the result.
        waiting: the fraction of its time that the slowest trainer waits for batches. All trainers of a step wait for the slowest one.
        busy: the fraction of their time in which engines work, on average. An engine that plans ahead counts more than 1.
    """
    if waiting > WAITING and busy > BUSY:
        count += max(1, count // 4)
    elif waiting < IDLE and count > 1 and busy * count / (count - 1) < BUSY:
        count -= 1
    return max(least, min(most, count))
