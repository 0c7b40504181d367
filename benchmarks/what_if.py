"""Predictions of ``asyncdali bench --what-if`` beside what the same settings then give, for the pipelines of examples/bottlenecks.py.

    python -m benchmarks.what_if                 # predictions; the machine must be quiet
    python -m benchmarks.what_if tune            # `asyncdali tune` beside an exhaustive search
    python -m benchmarks.what_if tune --names too_few_workers    # one pipeline
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CORES = len(os.sched_getaffinity(0))
STEP = ["--consumer-ms", "15"]

CASES = [  # pipeline, options, the knob that is turned (a row of the prediction), and the options or the pipeline that turn it
    ("slow_source", [], ("the called sources in 2 workers", 2), "slow_source_workers", []),
    ("interpreter_bound", [], ("the called sources in 2 workers", 2), "interpreter_bound_mended", []),
    ("slow_decode", [], ("num_threads", 2), "slow_decode", ["--threads", "2"]),
    ("slow_python_function", [], ("engines", 2), "slow_python_function", ["--engines", "2", "--depth", "3"]),
    ("small_queue", STEP, ("prefetch_queue_depth", 2), "small_queue", ["--depth", "2"]),
    ("slow_consumer", STEP, ("num_threads", 4), "slow_consumer", ["--threads", "4"]),
    ("slow_sample", [], ("prefetch_queue_depth", 2), "slow_sample", ["--depth", "2"]),
    ("too_few_workers", [], ("py_num_workers", 4), "too_few_workers", ["--workers", "4"]),
    ("too_many_threads", [], ("num_threads", 4 * CORES), "too_many_threads", ["--threads", str(4 * CORES)]),
    ("slow_storage", [], ("num_threads", 4), "slow_storage", ["--threads", "4"]),
]
TUNED = ["slow_decode", "small_queue", "slow_sample", "too_few_workers"]


def bench(name: str, *options: str, iterations: int = 60, **environment: str) -> dict:
    command = [sys.executable, "-m", "asyncdali", "bench", f"{ROOT / 'examples' / 'bottlenecks.py'}:{name}", "--json",
               "--iterations", str(iterations), *options]  # fmt: skip
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        raise SystemExit(f"{name}: {done.stderr}")
    return json.loads(done.stdout)


def rate(found: dict) -> float:
    return found["measurement"]["samples"] / found["measurement"]["seconds"]


def predictions(rounds: int, names: list[str]) -> None:
    print(f"{'pipeline':>22} {'knob':>34} {'now':>8} {'predicted':>9} {'turned':>8} {'error':>7}  others")
    with tempfile.TemporaryDirectory() as folder:
        slow = _slow_storage(Path(folder))
        for name, options, (knob, value), turned, more in (case for case in CASES if case[0] in names):
            environment = slow if name == "slow_storage" else {}
            if environment is None:
                print(f"{name:>22} no C compiler to build a stand-in for slow storage")
                continue
            before, predicted, after, others = [], [], [], []
            for _ in range(rounds):
                first = bench(name, "--what-if", *options, **environment)
                row = next(row for row in first["what_if"]["rows"] if (row["name"], row["value"]) == (knob, value))
                second = bench(turned, *options, *more, **environment)
                before.append(rate(first))
                predicted.append(row["rate"])
                after.append(rate(second))
                others += [item["measurement"]["sharing"]["others_share"] for item in (first, second)]
            was, said, came = map(statistics.median, (before, predicted, after))
            shown = f"{name:>22} {f'{knob}={value}':>34} {was:8.0f} {said:9.0f} {came:8.0f} {said / came - 1:+7.1%}"
            print(f"{shown}  {max(others):.0%}", flush=True)


def _slow_storage(folder: Path) -> dict[str, str] | None:
    sys.path.insert(0, str(ROOT / "tests"))
    from helpers.slow_files import compiler, slow_files

    if compiler() is None:
        return None
    pictures = folder / "slow"
    shutil.copytree(ROOT / "asyncdali" / "data" / "pictures", pictures)
    return {"BOTTLENECKS_PICTURES": str(pictures), **slow_files(folder, pictures, 8000)}


KNOBS = {"num_threads": "--threads", "prefetch_queue_depth": "--depth", "py_num_workers": "--workers"}
Settings = tuple[int, ...]
"""Values of KNOBS."""


def medians(measured: Callable[[Settings], float], every: Sequence[Settings], turns: int) -> list[float]:
    """Median rates of several settings, measured in turns: first one of each, then the second of each."""
    found: list[list[float]] = [[] for _ in every]
    for turn in range(turns):
        for place in sorted(range(len(every)), reverse=turn % 2 == 1):
            found[place].append(measured(every[place]))
    return [statistics.median(rates) for rates in found]


def winner(measured: Callable[[Settings], float], grid: Sequence[Settings]) -> Settings:
    """The fastest settings of a grid: one measurement of each, and three more of the four fastest, in turns."""
    rates = [measured(settings) for settings in grid]
    best = [grid[k] for k in sorted(range(len(grid)), key=lambda k: -rates[k])[:4]]
    again = medians(measured, best, 3)
    return best[again.index(max(again))]


class Bottleneck:
    """One of examples/bottlenecks.py, measured for about a second with any settings. `others`: the largest share of other programs."""

    def __init__(self, name: str):
        self.name = name
        self.options = STEP if name in ("small_queue", "slow_consumer") else []
        self.others = 0.0
        self._iterations = 60
        self._iterations = max(60, round(60 / self._measurement()["seconds"]))

    def _measurement(self, *given: str) -> dict:
        found = bench(self.name, *given, *self.options, iterations=self._iterations)["measurement"]
        self.others = max(self.others, found["sharing"]["others_share"])
        return found

    def rate(self, settings: Settings) -> float:
        found = self._measurement(*(word for option, value in zip(KNOBS.values(), settings) for word in (option, str(value))))
        return found["samples"] / found["seconds"]


def tuned(names: list[str], turns: int) -> None:
    """`tune` beside an exhaustive search. The best of many noisy rates is too high, so the rates of the search only choose the winner: the
    winner and the choice of `tune` are then measured in turns, and their medians are compared."""
    threads, depths = [1, 2, 3, 4], [1, 2, 3, 4, 6]
    for name in names:
        measured = Bottleneck(name)
        file = f"{ROOT / 'examples' / 'bottlenecks.py'}:{name}"
        command = [sys.executable, "-m", "asyncdali", "tune", file, "--json", "--engines", "0", *measured.options]
        found = json.loads(subprocess.run(command, capture_output=True, text=True, timeout=3600, check=True).stdout)
        workers = [1, 2, 4, 8] if name == "too_few_workers" else [1]
        best = winner(measured.rate, list(itertools.product(threads, depths, workers)))
        chosen = tuple(found["best"][knob] for knob in KNOBS)
        fastest, ended = medians(measured.rate, [best, chosen], turns)
        print(
            f"{name:>18} tuned {ended:8.0f} {chosen} in {len(found['tried'])} trials, grid {fastest:8.0f} {best}, "
            f"ratio {ended / fastest:.3f}  others {max(measured.others, found['others_share']):.0%}", flush=True,
        )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=("predictions", "tune"), default="predictions")
    parser.add_argument("--rounds", type=int, default=3, help="of predictions")
    parser.add_argument("--turns", type=int, default=7, help="of the winner of the search and the choice of tune")
    parser.add_argument("--names", help="pipelines, separated by commas (default: all for predictions, four for tune)")
    options = parser.parse_args()
    known = [case[0] for case in CASES]
    names = options.names.split(",") if options.names else TUNED if options.what == "tune" else known
    if unknown := set(names) - set(known):
        parser.error(f"no pipeline {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    predictions(options.rounds, names) if options.what == "predictions" else tuned(names, options.turns)


if __name__ == "__main__":
    main()
