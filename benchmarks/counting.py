"""What `statistics()` costs: processor time per iteration with the counters on and off, on one and the same pipeline.

    python -m benchmarks.counting [--data FOLDER] [--seconds N]
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from typing import Any

from . import programs
from .harness import Table, median_interval
from .pictures import picture_folder


def cost(pipe: Any, iterations: int, seconds: float) -> tuple[float, tuple[float, float, float], int]:
    """Microseconds per iteration without counters; more with them: median and its 95 % interval; pairs of blocks."""
    session = pipe._session
    counters, segments = session.counters, session.executor._segments
    every = [segment.counters for segment in segments]

    def block(on: bool) -> float:
        session.wait_all()
        session.counters = session.executor.counters = counters if on else None
        session.executor._counting = on
        for segment, own in zip(segments, every, strict=True):
            segment.counters = own if on else None
        for _ in range(4):  # what is in flight was begun the other way
            pipe.run()
        began = time.process_time_ns()
        for _ in range(iterations):
            pipe.run()
        return (time.process_time_ns() - began) / iterations / 1e3

    without, more = [], []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        order = (True, False) if len(more) % 2 else (False, True)
        took = {on: block(on) for on in order}
        without.append(took[False])
        more.append(took[True] - took[False])
    return statistics.median(without), median_interval(more), len(more)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.counting", description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder of class folders with JPEGs (default: ASYNCDALI_BENCH_DATA, else made ones)")
    parser.add_argument("--seconds", type=float, default=40.0)
    options = parser.parse_args()
    os.environ.setdefault("ASYNCDALI_DEVICE", "host")
    import asyncdali

    training = programs.training(asyncdali, picture_folder(options.data), 16, 1)
    epoch = min(64, training.epoch_size("reader") // 16)  # so that all blocks work on the same pictures
    table = Table("cost of statistics, processor time", ["pipeline", "off, us per iteration", "more with them, us", "%", "pairs"])
    for name, pipe, iterations, seconds in [
        ("empty", programs.empty(asyncdali), 100, options.seconds / 4), ("training, batch 16, 1 thread", training, epoch, options.seconds),
    ]:  # fmt: skip
        for _ in range(20):
            pipe.run()
        off, found, pairs = cost(pipe, iterations, seconds)
        more, low, high = found
        share = [f"{100 * value / off:.2f}" for value in found]
        table.add(name, off, f"{more:.1f} ({low:.1f} to {high:.1f})", f"{share[0]} ({share[1]} to {share[2]})", pairs)
        pipe.close()
    table.notes.append("medians of the pairs, 95 % intervals; target: at most 5 us, less than 1 % on the training pipeline")
    table.print()


if __name__ == "__main__":
    main()
