"""The graph language: conditionals, expressions, functions of `math`, and the cost of defining a large graph.

All values are processor time of the process (all its threads) per iteration, not elapsed time. Threads hand over work of some microseconds
here, and processor time also holds on a shared machine. Contenders take turns; ratios are medians over the rounds.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from .harness import Table

BATCH, SHAPE = 64, (224, 224, 3)
FUNCTIONS = ("sin", "cos", "tan", "exp", "log", "sqrt", "atan", "tanh", "cbrt")
ELEMENTS = 50_000
OPERATORS = 1000

Graph = Callable[[Any, dict[str, Any]], Any]


class Program:
    """A pipeline that takes the same data in every iteration, without copying it. `cost` collects seconds per iteration."""

    def __init__(self, lib: Any, graph: Graph, data: dict[str, tuple[Any, str]], **options: Any):
        names = list(data)

        def define() -> Any:
            fed = {
                name: lib.fn.external_source(_giving(data[name][0]), batch=True, layout=data[name][1] or None, no_copy=True)
                for name in names
            }  # fmt: skip
            return graph(lib, fed)

        self.pipe = lib.pipeline_def(batch_size=BATCH, num_threads=2, device_id=None, seed=1, **options)(define)()
        self.pipe.build()
        self.cost: list[float] = []

    def measure(self, iterations: int) -> None:
        """Run some iterations, and wait until the queue is as full as before. So exactly `iterations` iterations are
        measured."""
        _until_idle()
        start = time.process_time()
        for _ in range(iterations):
            self.pipe.run()
        _until_idle()
        self.cost.append((time.process_time() - start) / iterations)

    def close(self) -> None:
        """Close the pipeline."""
        getattr(self.pipe, "close", lambda: None)()


def _until_idle() -> None:
    """Wait until this process has used almost no processor time for some ms: then all prefetching is done.

    Without this wait a program pays for the work that the previous program had in flight, which favours the successor of a cheap program.
    """
    used, quiet = time.process_time(), 0
    deadline = time.monotonic() + 2
    while quiet < 3 and time.monotonic() < deadline:
        time.sleep(0.004)
        used, before = time.process_time(), used
        quiet = quiet + 1 if used - before < 0.0004 else 0


def _giving(batch: Any) -> Callable[[], Any]:
    return lambda: batch


def compared(programs: list[Program], rounds: int, iterations: int) -> None:
    """Run the programs in turns, after some iterations that do not count."""
    for program in programs:
        program.measure(5)
        program.cost.clear()
    for number in range(rounds):
        for program in programs if number % 2 == 0 else programs[::-1]:
            program.measure(iterations)
    for program in programs:
        program.close()


def ratio(one: Program, other: Program) -> float:
    """Median over the rounds of the cost of `one` per cost of `other`."""
    return statistics.median(a / b for a, b in zip(one.cost, other.cost))


def milliseconds(program: Program) -> float:
    """Median cost of an iteration."""
    return statistics.median(program.cost) * 1e3


# ------------------------------------------------------------------------------------------------------------------- programs


def images(seed: int) -> np.ndarray:
    """A batch of pictures."""
    return np.random.default_rng(seed).integers(0, 256, (BATCH, *SHAPE), np.uint8)


def rotate_all(lib: Any, fed: dict[str, Any]) -> Any:
    """Every image is rotated."""
    return lib.fn.rotate(fed["x"], angle=fed["angle"], keep_size=True, fill_value=0)


def rotate_some(lib: Any, fed: dict[str, Any]) -> Any:
    """The images whose flag is set are rotated."""
    x = fed["x"]
    if fed["taken"]:
        x = lib.fn.rotate(x, angle=fed["angle"], keep_size=True, fill_value=0)
    return x


def expression(lib: Any, fed: dict[str, Any]) -> Any:
    """Five operations over images."""
    return (fed["x"] * 0.7 + 3) // 2 > fed["y"]


def function(name: str) -> Graph:
    """A function of `math`."""
    return lambda lib, fed: getattr(lib.math, name)(fed["x"])


def chain(lib: Any) -> None:
    """Define a graph of many operators: draws, arithmetic, casts, joins."""
    pipe = lib.Pipeline(batch_size=8, num_threads=1, device_id=None)
    fn, types = lib.fn, lib.types
    with pipe:
        node = fn.random.uniform(range=[0, 1])
        for k in range(OPERATORS // 4):
            node = fn.cast(node * 2 + k, dtype=types.FLOAT) + fn.random.normal()
        pipe.set_outputs(node)


# --------------------------------------------------------------------------------------------------------------------- tables


def measure(libraries: dict[str, Any], rounds: int) -> Table:
    """The table. Targets come from the project's issue."""
    table = Table("graph language, processor time", ["what", "ms per iteration", "other", "this / other", "target"])
    rounds = max(rounds, 5)
    _conditionals(table, libraries, rounds)
    _expressions(table, libraries, rounds)
    _functions(table, libraries, rounds)
    _definition(table, libraries)
    return table


def _conditionals(table: Table, libraries: dict[str, Any], rounds: int) -> None:
    angles = np.linspace(-30, 30, BATCH, dtype=np.float32)
    data = {"x": (images(0), "HWC"), "angle": (angles, ""), "taken": (np.arange(BATCH) % 2 == 0, "")}
    made = {}
    for name, lib in libraries.items():
        made[name] = (
            Program(lib, rotate_all, {key: data[key] for key in ("x", "angle")}), Program(lib, rotate_some, data, enable_conditionals=True),
        )  # fmt: skip
    compared([program for pair in made.values() for program in pair], 3 * rounds, 4)  # short turns: both see the machine in the same state
    for name, (everything, some) in made.items():
        target = "<= 0.6" if name == "asyncdali" else ""
        table.add(f"{name}: rotate, 50 % taken / all", milliseconds(some), milliseconds(everything), ratio(some, everything), target)


def _expressions(table: Table, libraries: dict[str, Any], rounds: int) -> None:
    data = {"x": (images(1), "HWC"), "y": (images(2), "HWC")}
    made = {name: Program(lib, expression, data) for name, lib in libraries.items()}
    compared(list(made.values()), rounds, 20)
    _against_dali(table, "(x * 0.7 + 3) // 2 > y, 224x224x3 uint8", made, "<= 0.667 (1.5 x DALI)")


def _functions(table: Table, libraries: dict[str, Any], rounds: int) -> None:
    x = np.random.default_rng(0).uniform(0.1, 20, (BATCH, ELEMENTS)).astype(np.float32)
    for name in FUNCTIONS:
        made = {key: Program(lib, function(name), {"x": (x, "")}) for key, lib in libraries.items()}
        compared(list(made.values()), rounds, 8)
        _against_dali(table, f"math.{name}, {ELEMENTS:,} floats", made, "<= 1")


def _against_dali(table: Table, what: str, made: dict[str, Program], target: str) -> None:
    ours, dali = made["asyncdali"], made.get("DALI")
    other = ("", "") if dali is None else (milliseconds(dali), ratio(ours, dali))
    table.add(what, milliseconds(ours), *other, target)


def _definition(table: Table, libraries: dict[str, Any]) -> None:
    seconds = {}
    for name, lib in libraries.items():
        times = []
        for _ in range(3):
            start = time.process_time()
            chain(lib)
            times.append(time.process_time() - start)
        seconds[name] = min(times)
    ours, dali = seconds["asyncdali"] * 1e3, seconds.get("DALI")
    other = ("", "") if dali is None else (dali * 1e3, ours / dali / 1e3)
    table.add(f"define {OPERATORS:,} operators, ms", ours, *other, "< 1000 ms")
