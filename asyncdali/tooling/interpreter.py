"""How long Python's interpreter is needed.

Compiled functions are called through ctypes, which releases the interpreter lock. Their class is wrapped to add up the processor time that
threads spend inside; what the process uses beyond that is interpreter time. numpy and system calls that release the lock for a
moment count as held, so the figure is an upper bound.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


class InterpreterTime:
    """`seconds`: processor time of this process outside of compiled code, known at the end of :func:`interpreter_time`."""

    def __init__(self) -> None:
        self.seconds = 0.0


@contextmanager
def interpreter_time() -> Iterator[InterpreterTime]:
    """Measure the block; not for two at the same time."""
    from ..compiled.step import Compiled

    original = Compiled.__call__
    inside = threading.local()
    totals: list[list[int]] = []

    def timed(self: Compiled, *args: int) -> int:
        if not hasattr(inside, "total"):
            inside.total = [0]
            totals.append(inside.total)
        start = time.thread_time_ns()
        result = original(self, *args)
        inside.total[0] += time.thread_time_ns() - start
        return result

    Compiled.__call__ = timed  # type: ignore[method-assign]
    found = InterpreterTime()
    before = time.process_time()
    try:
        yield found
    finally:
        used = time.process_time() - before
        Compiled.__call__ = original  # type: ignore[method-assign]
        found.seconds = max(0.0, used - sum(total[0] for total in totals) / 1e9)
