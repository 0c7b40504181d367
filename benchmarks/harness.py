"""Interleaved timing, tables, JSON."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

PACKAGES = (
    "asyncdali", "nvidia-dali-cuda130", "nvidia-dali-cuda120", "numpy", "numba", "opencv-python-headless", "pillow", "simplejpeg",
    "torch", "grain", "spdl", "uvloop",
)  # fmt: skip


@dataclass
class Contender:
    """One program to time: ``step()`` does one unit of work (a batch, an iteration) and returns how many items it was."""

    name: str
    step: Callable[[], int]
    close: Callable[[], None] = lambda: None
    rates: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.rates)


def interleave(contenders: list[Contender], rounds: int, seconds: float, warm_up: int = 3) -> None:
    """Time every contender in turn, `rounds` times, each for about `seconds`. Items per second are appended to ``rates``."""
    for contender in contenders:
        for _ in range(warm_up):
            contender.step()
    for number in range(rounds):
        order = contenders if number % 2 == 0 else contenders[::-1]
        for contender in order:
            contender.step()  # refill the queues that drained while the others ran
            items, start = 0, time.perf_counter()
            while (elapsed := time.perf_counter() - start) < seconds:
                items += contender.step()
            contender.rates.append(items / elapsed)


def paired_ratio(one: Contender, other: Contender) -> float:
    """Median over the rounds of (rate of `one` / rate of `other` in the same round)."""
    return statistics.median(a / b for a, b in zip(one.rates, other.rates))


def median_interval(values: list[float]) -> tuple[float, float, float]:
    """The median, and its 95 % confidence interval (from ranks, for any distribution)."""
    ranked, count = sorted(values), len(values)
    reach = 1.96 * count**0.5 / 2
    return statistics.median(ranked), ranked[max(0, int(count / 2 - reach))], ranked[min(count - 1, int(count / 2 + reach))]


@dataclass
class Table:
    """A benchmark's result: rows of name, value, ratio. It is printed and stored."""

    title: str
    columns: list[str]
    rows: list[list[Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, *cells: Any) -> None:
        self.rows.append(list(cells))

    def print(self) -> None:
        cells = [self.columns, *[[_text(cell) for cell in row] for row in self.rows]]
        widths = [max(len(row[k]) for row in cells) for k in range(len(self.columns))]
        print(f"\n{self.title}")
        for row in cells:
            print("  " + "  ".join(text.ljust(width) if k == 0 else text.rjust(width) for k, (text, width) in enumerate(zip(row, widths))))
        for note in self.notes:
            print(f"  ({note})")
        sys.stdout.flush()

    def as_dict(self) -> dict[str, Any]:
        return {"title": self.title, "columns": self.columns, "rows": self.rows, "notes": self.notes}


def _text(cell: Any) -> str:
    if isinstance(cell, float):
        return f"{cell:.3g}" if abs(cell) < 100 else f"{cell:,.0f}"
    return str(cell)


def rate_table(title: str, contenders: list[Contender], unit: str, target: str = "") -> Table:
    """Rates of all contenders, and the ratio of the first one to each of the others."""
    table = Table(title, ["contender", f"{unit} (median)", "min", "max", "ours / this"])
    ours = contenders[0]
    for contender in contenders:
        ratio = paired_ratio(ours, contender) if contender is not ours else 1.0
        table.add(contender.name, contender.median, min(contender.rates), max(contender.rates), ratio)
    if target:
        table.notes.append(f"target: {target}")
    return table


def checksum(array: np.ndarray) -> int:
    """A number that depends on every cache line of a contiguous array: the minimum cost of a consumer that reads the array."""
    raw = array.reshape(-1).view(np.uint8)
    return int(np.add.reduce(raw[: len(raw) & ~7].view(np.uint64)[::8], dtype=np.uint64))


def environment() -> dict[str, Any]:
    """Versions, and the machine."""
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    model = ""
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo") as file:
            model = next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), "")
    return {
        "python": platform.python_version(), "platform": platform.platform(), "cpu": model, "cores": os.cpu_count(),
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None, "versions": versions,
        "date": time.strftime("%Y-%m-%d %H:%M"),
    }  # fmt: skip


def write_json(path: str, tables: list[Table]) -> None:
    """All tables and the environment."""
    with open(path, "w") as file:
        json.dump({"environment": environment(), "tables": [table.as_dict() for table in tables]}, file, indent=1)
