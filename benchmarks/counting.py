"""Cost of `statistics()`: processor time per iteration with the counters on and off, on the same pipeline.

    python -m benchmarks.counting [--data FOLDER] [--seconds N]
"""

from __future__ import annotations

import argparse
import os
import statistics
import threading
import time
from pathlib import Path
from typing import Any

from . import programs
from .harness import Table, median_interval
from .pictures import picture_folder

Interval = tuple[float, float, float]


def cost(pipe: Any, iterations: int, seconds: float) -> tuple[float, Interval, Interval, int]:
    """Microseconds per iteration without counters, and the extra with counters, for all threads and for all but the workers.

    Values are medians and their 95 % intervals. The last value is the number of pairs of blocks.
    """
    session = pipe._core.session
    counters, segments = session.counters, session.executor._program.segments
    every = [segment.counters for segment in segments]

    workers = [thread.native_id for thread in threading.enumerate() if "-worker-" in thread.name]

    def used() -> tuple[int, int]:
        """Processor time of the process, and of the workers.

        Counting costs the workers almost nothing (compiled code reads a clock), but the workers make the pictures: they cause most noise.
        """
        return time.process_time_ns(), sum(int(Path(f"/proc/self/task/{item}/schedstat").read_text().split()[0]) for item in workers)

    def block(on: bool) -> tuple[float, float]:
        session.wait_all()
        session.counters = session.executor.counters = session.delivery._counters = counters if on else None
        for segment, own in zip(segments, every, strict=True):
            segment.counters = own if on else None
        for _ in range(4):  # iterations in flight were started in the other mode
            pipe.run()
        began = used()
        for _ in range(iterations):
            pipe.run()
        whole, own = (after - before for before, after in zip(began, used()))
        return whole / iterations / 1e3, (whole - own) / iterations / 1e3

    without, more, outside = [], [], []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        order = (True, False) if len(more) % 2 else (False, True)
        took = {on: block(on) for on in order}
        without.append(took[False][0])
        more.append(took[True][0] - took[False][0])
        outside.append(took[True][1] - took[False][1])
    return statistics.median(without), median_interval(more), median_interval(outside), len(more)


def _shown(found: Interval, off: float) -> tuple[str, str]:
    """Microseconds, and per cent of the time without counters."""
    shares = [100 * value / off for value in found]
    return "{:.1f} ({:.1f} to {:.1f})".format(*found), "{:.2f} ({:.2f} to {:.2f})".format(*shares)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.counting", description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder of class folders with JPEGs (default: ASYNCDALI_BENCH_DATA, else made ones)")
    parser.add_argument("--seconds", type=float, default=40.0)
    options = parser.parse_args()
    os.environ.setdefault("ASYNCDALI_DEVICE", "host")
    import asyncdali

    training = programs.training(asyncdali, picture_folder(options.data), 16, 1)
    epoch = min(64, training.epoch_size("reader") // 16)  # all blocks process the same pictures
    columns = ["pipeline", "off, us per iteration", "more with them, us", "%", "but workers, us", "%", "pairs"]
    table = Table("cost of statistics, processor time", columns)
    for name, pipe, iterations, seconds in [
        ("empty", programs.empty(asyncdali), 100, options.seconds / 4), ("training, batch 16, 1 thread", training, epoch, options.seconds),
    ]:  # fmt: skip
        for _ in range(20):
            pipe.run()
        off, found, outside, pairs = cost(pipe, iterations, seconds)
        table.add(name, off, *_shown(found, off), *_shown(outside, off), pairs)
        pipe.close()
    table.notes.append("medians of the pairs, 95 % intervals; target: at most 5 us, less than 1 % on the training pipeline")
    table.print()


if __name__ == "__main__":
    main()
