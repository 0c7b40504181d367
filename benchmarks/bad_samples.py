"""The cost of ``on_error="replace"`` in pipelines without bad samples: ``python -m benchmarks.bad_samples [PAIRS]``.

First table: bytecodes per iteration in all threads, counted by a trace. They do not depend on the load of the machine.

Second table: two pipelines of one process run in turns of some iterations, one with ``on_error="raise"``. No iteration is in flight between
the turns, so all processor time of a turn is its own. Printed: the median of the processor time of an iteration, the median of the paired
differences, and its 95 % interval from 2,000 resamplings. The lines with two rules "raise" show the noise.
"""

from __future__ import annotations

import statistics
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import asyncdali
from asyncdali import Pipeline, fn, pipeline_def

BATCH = 64
WARM, COUNTED = 30, 60
"""Iterations before the measurement, and iterations whose bytecodes are counted."""


@pipeline_def(batch_size=BATCH, num_threads=2, device_id=None, seed=1)
def training() -> Any:
    """Pictures: decoded, resized, mirrored, normalized."""
    data, labels = fn.readers.file(file_root=str(Path(asyncdali.__file__).parent / "data" / "pictures"), random_shuffle=True)
    pictures = fn.resize(fn.decoders.image_random_crop(data), size=[224, 224])
    return fn.crop_mirror_normalize(pictures, mirror=fn.random.coin_flip()), labels


@pipeline_def(batch_size=BATCH, num_threads=2, device_id=None, seed=1)
def small() -> Any:
    """Labels and draws: all time is that of iterations."""
    _, labels = fn.readers.file(file_root=str(Path(asyncdali.__file__).parent / "data" / "pictures"))
    return labels, fn.random.uniform()


@pipeline_def(batch_size=BATCH, num_threads=2, device_id=None, seed=1)
def source() -> Any:
    """Samples from Python, asked one by one."""
    shared = np.zeros(16, np.float32)
    return fn.external_source(source=lambda info: shared, batch=False)


def bytecodes(define: Callable[..., Pipeline], rule: str) -> tuple[float, float]:
    """The median and the mean number of bytecodes of an iteration, in all threads."""
    executed = 0

    def trace(frame: Any, event: str, argument: object) -> Any:
        nonlocal executed
        if event == "call":
            frame.f_trace_lines, frame.f_trace_opcodes = False, True
        elif event == "opcode":
            executed += 1
        return trace

    threading.settrace(trace)
    sys.settrace(trace)
    try:
        pipe = define(on_error=rule, prefetch_queue_depth=1, enable_statistics=False)  # statistics choose iterations by their time
        pipe.build()
        counts = []
        for _ in range(WARM + COUNTED):
            before = executed
            pipe.run()
            counts.append(executed - before)
        pipe.close()
    finally:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]
    return statistics.median(counts[WARM:]), statistics.mean(counts[WARM:])


def turn(pipe: Pipeline, iterations: int) -> float:
    """Processor microseconds per iteration."""
    began = time.process_time_ns()
    for _ in range(iterations):
        pipe.run()
    return (time.process_time_ns() - began) / iterations / 1e3


def measured(define: Callable[..., Pipeline], rules: tuple[str, str], pairs: int, iterations: int) -> str:
    """A line of the table."""
    pipes = [define(on_error=rule, prefetch_queue_depth=1) for rule in rules]
    for pipe in pipes:
        pipe.build()
        turn(pipe, WARM)
    order = np.random.default_rng(1)
    found = np.empty((pairs, 2))
    for k in range(pairs):
        for number in order.permutation(2):
            found[k, number] = turn(pipes[number], iterations)
    for pipe in pipes:
        pipe.close()
    differences, base = found[:, 1] - found[:, 0], float(np.median(found[:, 0]))
    resampled = np.median(differences[order.integers(0, pairs, (2000, pairs))], axis=1)
    low, high = np.quantile(resampled, [0.025, 0.975]) / base * 100
    middle = float(np.median(differences))
    cells = f"{pairs} x {iterations} | {base:,.1f} | {middle:+.2f} | {middle / base * 100:+.2f} % | {low:+.2f} to {high:+.2f} %"
    return f"| {define.__name__} | {' '.join(rules)} | {cells} |"


def main() -> None:
    """Print the tables."""
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    print("| pipeline | raise | replace | difference |\n|---|---|---|---|")
    for define in (training, small, source):
        (one, _), (other, _) = bytecodes(define, "raise"), bytecodes(define, "replace")
        print(f"| {define.__name__} | {one:,.0f} | {other:,.0f} | {other - one:+,.0f} ({(other / one - 1) * 100:+.2f} %) |", flush=True)
    print("\n| pipeline | rules | turns | us | difference | of it | 95 % |\n|---|---|---|---|---|---|---|")
    for rules in (("raise", "replace"), ("raise", "raise")):
        for define, iterations in ((training, 1), (small, 10), (source, 40)):
            print(measured(define, rules, pairs, iterations), flush=True)


if __name__ == "__main__":
    main()
