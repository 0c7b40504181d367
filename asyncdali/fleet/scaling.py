"""The number of engines that trainers need."""

from __future__ import annotations

WAITING = 0.05
"""Part of a trainer's time that it may wait for batches. Above this part, more engines are needed."""
IDLE = 0.01
"""If every trainer waits for less than this part of its time, there are enough engines."""
BUSY = 0.7
"""Busy part of the engines' time. Below this, more engines would not shorten the wait."""


def wanted(count: int, least: int, most: int, waiting: float, busy: float) -> int:
    """The number of engines that trainers need, when there are `count` engines now.

    Args:
        waiting: the part of its time that the slowest trainer waits for batches. All trainers of a step wait for the slowest one.
        busy: the part of their time in which engines work, on average. An engine that plans ahead counts more than 1.
    """
    if waiting > WAITING and busy > BUSY:
        count += max(1, count // 4)
    elif waiting < IDLE and count > 1 and busy * count / (count - 1) < BUSY:
        count -= 1
    return max(least, min(most, count))
