"""Costs and gains of engines (docs/engines.md):
``python -m benchmarks.engines [handover training interpreter memory python sources busy]``.

Pipelines with and without engines run in turns, for several rounds. The tables give medians, and medians of the paired ratios.
"""

from __future__ import annotations

import contextlib
import glob
import os
import statistics
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import asyncdali
from asyncdali import fn

from . import programs
from .large_samples import shared
from .pictures import picture_folder

ROUNDS = 7


Row = tuple[float, float, float]
"""Per iteration: wall seconds, processor seconds of this process, and processor seconds of the engines."""


def used_by(pids: Sequence[int]) -> float:
    """Processor seconds of the threads of other processes so far."""
    total = 0
    for pid in pids:
        for path in glob.glob(f"/proc/{pid}/task/*/schedstat"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError), open(path) as file:  # the thread may end
                total += int(file.read().split()[0])
    return total / 1e9


def in_turns(pipes: dict[str, Any], count: int, read: Callable[[Any], Any], rounds: int = ROUNDS) -> dict[str, list[Row]]:
    """The rows of each pipeline, one per round."""
    found: dict[str, list[Row]] = {name: [] for name in pipes}
    pids = {name: [item.pid for item in pipe.statistics().engines] for name, pipe in pipes.items()}
    for number in range(rounds + 1):
        for name in list(pipes)[:: 1 if number % 2 else -1]:
            pipe = pipes[name]
            read(pipe.run())
            wall, used, there = time.perf_counter(), time.process_time(), used_by(pids[name])
            for _ in range(count):
                read(pipe.run())
            if number:
                taken = time.perf_counter() - wall, time.process_time() - used, used_by(pids[name]) - there
                found[name].append((taken[0] / count, taken[1] / count, taken[2] / count))
    return found


def table(title: str, found: dict[str, list[Row]], samples: int, unit: float = 1e6) -> None:
    base = next(iter(found))
    print(f"\n{title}\n{'':>12}{'us/iteration':>14}{'samples/s':>12}{'us here':>12}{'us there':>12}{'ratio':>8}")
    for name, rows in found.items():
        wall = statistics.median(row[0] for row in rows)
        used, there = (statistics.median(row[k] for row in rows) * unit for k in (1, 2))
        ratio = statistics.median(other[0] / own[0] for own, other in zip(rows, found[base]))
        print(f"{name:>12}{wall * unit:>14,.1f}{samples / wall:>12,.0f}{used:>12,.1f}{there:>12,.1f}{ratio:>8.3f}")


def built(make: Callable[[int], Any], numbers: Sequence[int]) -> dict[str, Any]:
    pipes = {}
    for engines in numbers:
        pipes[f"engines={engines}"] = pipe = make(engines)
        pipe.build()
        for _ in range(6):
            pipe.run()
    return pipes


def handover() -> None:
    """A draw of 64 numbers, which is nearly all hand-over. `us here` is the processor time of all threads of the training process."""

    def make(engines: int) -> Any:
        pipe = asyncdali.Pipeline(batch_size=64, num_threads=1, seed=1, engines=engines)
        with pipe:
            pipe.set_outputs(fn.random.uniform(range=[0, 1]))
        return pipe

    table("hand-over (one draw, batch 64)", in_turns(built(make, (0, 1, 2)), 1000, lambda outputs: None), 64)


def training(rounds: int = 2 * ROUNDS) -> None:
    """The training pipeline. Every batch is read."""
    folder = picture_folder(None)
    for batch, count in ((64, 30), (256, 8)):
        pipes = built(lambda engines: programs.training(asyncdali, folder, batch, engines=engines), (0, 1))  # noqa: B023
        table(f"training pipeline (batch {batch})", in_turns(pipes, count, read, rounds), batch)
        for pipe in pipes.values():
            pipe.close()


def interpreter() -> None:
    """Processor time of the training process, which runs nothing but the interpreter and system calls there. Outputs are not read.

    Calls are counted separately, because counting takes time.
    """
    folder = picture_folder(None)
    print(f"\ninterpreter in the training process (engines=1)\n{'':>12}{'us/iteration':>14}{'us/sample':>12}{'calls':>8}")
    for batch in (64, 256):
        pipe = programs.training(asyncdali, folder, batch, threads=1, engines=1)
        for _ in range(6):
            pipe.run()
        count, rows = max(4, 2560 // batch), []
        for _ in range(3):
            began = time.process_time()
            for _ in range(count):
                pipe.run()
            rows.append((time.process_time() - began) / count * 1e6)
        used = statistics.median(rows)
        print(f"{f'batch {batch}':>12}{used:>14,.1f}{used / batch:>12.2f}{calls(pipe.run, count):>8.0f}", flush=True)
        pipe.close()


def calls(function: Callable[[], Any], count: int) -> float:
    """Calls of Python functions on this thread per call of a function."""
    found = 0

    def called(frame: Any, event: str, argument: Any) -> None:
        nonlocal found
        found += event == "call"

    sys.setprofile(called)
    try:
        for _ in range(count):
            function()
    finally:
        sys.setprofile(None)
    return found / count


def memory() -> None:
    """Memory after 30 iterations, in MB: of the training process, of an engine, and memory that both share.

    Memory of a process is what it shares with no other (after a fork, much is shared). Two batches are in flight, and one is held.
    """
    folder = picture_folder(None)

    def private(pid: int) -> float:
        with open(f"/proc/{pid}/smaps_rollup") as file:
            return sum(int(line.split()[1]) for line in file if line.startswith("Private_")) / 1000

    print(f"\nmemory in MB (training pipeline, batch 256)\n{'':>24}{'training process':>18}{'per engine':>12}{'shared':>10}")
    for method, engines in (("fork", 0), ("fork", 1), ("fork", 2), ("spawn", 2), ("forkserver", 2)):
        pipe = programs.training(asyncdali, folder, 256, engines=engines, engine_start_method=method)
        for _ in range(30):
            outputs = pipe.run()
        pids = [item.pid for item in pipe.statistics().engines]
        per_engine = statistics.mean(map(private, pids)) if pids else 0.0
        name = f"engines={engines} {method if engines else ''}"
        print(f"{name:>24}{private(os.getpid()):>18,.1f}{per_engine:>12,.1f}{shared(os.getpid()) / 1e6:>10,.1f}", flush=True)
        del outputs
        pipe.close()


def read(outputs: Any) -> None:
    """Read one word of each cache line."""
    for output in outputs:
        for sample in output:
            np.asarray(sample).reshape(-1).view(np.uint8)[::64].sum()


def python() -> None:
    """A python_function of 300 us per sample that holds the interpreter."""

    def hold(value: Any) -> Any:
        end = time.thread_time_ns() + 300_000
        while time.thread_time_ns() < end:
            pass
        return value

    def make(engines: int) -> Any:
        pipe = asyncdali.Pipeline(batch_size=32, num_threads=1, seed=1, engines=engines, prefetch_queue_depth=4)
        with pipe:
            pipe.set_outputs(fn.python_function(fn.random.uniform(range=[0, 1]), function=hold))
        return pipe

    table("python_function of 300 us (batch 32)", in_turns(built(make, (0, 1, 2)), 40, lambda outputs: None, 5), 32)


def sources() -> None:
    """A source, called by position, that takes 300 us per sample and holds the interpreter."""

    def hold(info: Any) -> Any:
        end = time.thread_time_ns() + 300_000
        while time.thread_time_ns() < end:
            pass
        return np.int32(info.idx_in_epoch)

    def make(engines: int) -> Any:
        pipe = asyncdali.Pipeline(batch_size=32, num_threads=1, seed=1, engines=engines, prefetch_queue_depth=4)
        with pipe:
            pipe.set_outputs(fn.external_source(source=hold, batch=False) + fn.random.uniform(range=[0, 1]))
        return pipe

    table("source by position of 300 us (batch 32)", in_turns(built(make, (0, 1, 2)), 40, lambda outputs: None, 5), 32)


def busy() -> None:
    """A training step of pure Python beside the loader.

    The result is the share of the step's time in which the main thread runs. Time in which it waits for a core is left out (the kernel
    counts it), so other programs change the result little. The rest is waiting for the interpreter.
    """
    folder = picture_folder(None)

    def waited() -> int:
        """Nanoseconds that this thread has waited for a core so far."""
        with open(f"/proc/self/task/{threading.get_native_id()}/schedstat") as file:
            return int(file.read().split()[1])

    def step(turns: int = 600_000) -> tuple[float, float]:
        """(milliseconds with a core, share of them in which the thread runs)."""
        began, used, queued, total = time.perf_counter_ns(), time.thread_time_ns(), waited(), 0
        for k in range(turns):
            total += k & 7
        on_core = time.perf_counter_ns() - began - (waited() - queued)
        return on_core / 1e6, (time.thread_time_ns() - used) / on_core

    def line(name: str, steps: list[tuple[float, float]]) -> None:
        taken, share = (statistics.median(item[k] for item in steps) for k in (0, 1))
        print(f"{name:>12}: {taken:.1f} ms, {share:.3f} of them with the interpreter")

    print("\npure Python in the main thread")
    line("alone", [step() for _ in range(20)])
    for engines in (0, 1):
        pipe = programs.training(asyncdali, folder, 8, threads=1, engines=engines)  # one core is left for the loader
        for _ in range(6):
            pipe.run()
        beside = []
        for _ in range(40):
            beside.append(step())
            pipe.run()
        line(f"engines={engines}", beside)
        pipe.close()


CASES = {
    "handover": handover, "training": training, "interpreter": interpreter, "memory": memory, "python": python, "sources": sources,
    "busy": busy,
}  # fmt: skip


if __name__ == "__main__":
    for name in sys.argv[1:] or CASES:
        CASES[name]()
