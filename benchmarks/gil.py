"""How long the interpreter is needed per sample.

A probe thread on the side asks for the GIL all the time and counts pure Python steps; the time it loses while the pipeline runs, against a quiet
process, would also contain CPU contention. So it is done the other way: threads run compiled code through ctypes, which releases
the GIL, and per-thread CPU time is split there. ``run_job`` is wrapped to add up the CPU time its thread spends inside; what the process
uses beyond that is interpreter time (numpy calls that release the GIL for a moment are counted as held, so this is an upper bound).
"""

from __future__ import annotations

import threading
import time

from . import programs


def held_per_sample(folder: str, batches: int = 60, batch: int = 64) -> float:
    """Microseconds of interpreter time per sample, upper bound."""
    import asyncdali
    from asyncdali.compiled import driver

    pipeline = programs.training(asyncdali, folder, batch)
    original = driver.run_job
    inside = threading.local()
    totals: list[list[float]] = []

    def timed(job: int, thread: int) -> int:
        if not hasattr(inside, "total"):
            inside.total = [0.0]
            totals.append(inside.total)
        start = time.thread_time()
        result = original(job, thread)
        inside.total[0] += time.thread_time() - start
        return result

    for _ in range(4):
        pipeline.run()
    driver.run_job = timed  # type: ignore[assignment]
    try:
        before, compiled_before = time.process_time(), 0.0
        for _ in range(batches):
            pipeline.run()
        used = time.process_time() - before
        compiled = sum(total[0] for total in totals) - compiled_before
    finally:
        driver.run_job = original
        pipeline.close()
    return max(0.0, used - compiled) / (batches * batch) * 1e6
