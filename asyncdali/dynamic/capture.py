"""Captured loops: ``reader.next_epoch(batch_size, capture=True)`` and ``source.captured(batch_size)`` compute one step ahead.

Results, random numbers and states are those of the loop without capture. Nothing has to be marked: calls are recorded while the loop runs.
"""

from typing import TypeVar

_T = TypeVar("_T")


def invariant(value: _T) -> _T:
    """`value` itself. Programs for DALI mark values that never change; here they are recognized by their contents."""
    return value
