"""The cost of ``on_error="replace"`` in pipelines without bad samples: ``python -m benchmarks.bad_samples [TURNS]``.

Two pipelines of one process run in turns, one with ``on_error="raise"``. Printed: processor time per iteration in microseconds (medians of
the turns, and the best turns), and the median of the turns' ratios. The last lines compare two pipelines with "raise": they show the noise.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import asyncdali
from asyncdali import Pipeline, fn, pipeline_def

BATCH = 64
SECONDS = 0.3
"""Processor time of a turn."""


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


def turn(pipe: Pipeline) -> float:
    """Processor microseconds per iteration."""
    began, count = time.process_time(), 0
    while (took := time.process_time() - began) < SECONDS:
        pipe.run()
        count += 1
    return took / count * 1e6


def measured(define: Callable[..., Pipeline], rules: tuple[str, str], turns: int) -> str:
    """A line of the table."""
    pipes = [define(on_error=rule) for rule in rules]
    for pipe in pipes:
        pipe.build()
        turn(pipe)
    found = []
    for k in range(turns):
        times = {number: turn(pipes[number]) for number in ((0, 1) if k % 2 else (1, 0))}
        found.append((times[0], times[1]))
    for pipe in pipes:
        pipe.close()
    medians = [statistics.median(column) for column in zip(*found, strict=True)]
    best = [min(column) for column in zip(*found, strict=True)]
    ratio = statistics.median(second / first for first, second in found)
    numbers = " | ".join(f"{value:,.1f}" for value in (*medians, *best))
    return f"| {define.__name__} | {' '.join(rules)} | {numbers} | {ratio:.4f} | {best[1] / best[0]:.4f} |"


def main() -> None:
    """Print the table."""
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    print("| pipeline | rules | medians | | best | | median ratio | ratio of the best |\n|---|---|---|---|---|---|---|---|")
    for rules in (("raise", "replace"), ("raise", "raise")):
        for define in (training, small, source):
            print(measured(define, rules, turns), flush=True)


if __name__ == "__main__":
    main()
