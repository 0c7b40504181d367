"""How long the interpreter is needed per sample.

Compiled functions are called through ctypes, which releases the interpreter lock. Their class is wrapped to add up the CPU time
that threads spend inside; the CPU time the process uses beyond that is interpreter time. numpy and system calls that release the
lock for a moment are counted as held, so the figure is an upper bound.
"""

from __future__ import annotations

import threading
import time

from . import programs


def held_per_sample(folder: str, batches: int = 60, batch: int = 64) -> float:
    """Microseconds of interpreter time per sample, upper bound."""
    import asyncdali
    from asyncdali.compiled.step import Compiled

    pipeline = programs.training(asyncdali, folder, batch)
    original = Compiled.__call__
    inside = threading.local()
    totals: list[list[float]] = []

    def timed(self: Compiled, *args: int) -> int:
        if not hasattr(inside, "total"):
            inside.total = [0.0]
            totals.append(inside.total)
        start = time.thread_time()
        result = original(self, *args)
        inside.total[0] += time.thread_time() - start
        return result

    for _ in range(4):
        pipeline.run()
    Compiled.__call__ = timed  # type: ignore[method-assign]
    try:
        before = time.process_time()
        for _ in range(batches):
            pipeline.run()
        used = time.process_time() - before
        compiled = sum(total[0] for total in totals)
    finally:
        Compiled.__call__ = original  # type: ignore[method-assign]
        pipeline.close()
    return max(0.0, used - compiled) / (batches * batch) * 1e6
