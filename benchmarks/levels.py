"""Code for a level of processors beside code for exactly this processor, by processor time of batches.

    python -m benchmarks.levels [NAME ...] [--rounds 7] [--batches 40]

The kernels of each target are compiled once, into a folder of their own. Then short processes of all targets run in turns, and the median
of the ratios of neighbouring processes counts.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from asyncdali.compiled import target

from . import first_batch
from .harness import Table, environment


def targets() -> dict[str, dict[str, str]]:
    """The environment variables of each target. The first one is the exact processor."""
    import llvmlite.binding as llvm

    exact = {"NUMBA_CPU_NAME": llvm.get_host_cpu_name(), "NUMBA_CPU_FEATURES": llvm.get_host_cpu_features().flatten()}
    levels = list(target.LEVELS)  # best first: this processor has those from its own level on
    return {"exact": exact, **{level: target.forced(level) for level in levels[levels.index(target.level() or levels[-1]) :]}}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.levels", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(first_batch.ALL)} (default: all)")
    parser.add_argument("--rounds", type=int, default=7, help="processes per target")
    parser.add_argument("--batches", type=int, default=40, help="batches per process")
    options = parser.parse_args()
    folder = Path(tempfile.gettempdir(), "asyncdali-bench-first-batch")
    first_batch.make_files(folder)
    info = environment()
    print(f"{info['date']}  {info['cpu']}  {info['cores']} cores  load {info['load']:.2f}")
    chosen = targets()
    table = Table("ms of processor time per batch", ["pipeline", "exact", *(f"{name} / exact" for name in chosen if name != "exact")])
    for name in options.names or first_batch.ALL:
        times: dict[str, list[float]] = {key: [] for key in chosen}
        for turn in range(-1, options.rounds):  # the first turn compiles
            for key, variables in chosen.items():
                kept = folder / "kernels" / key
                kept.mkdir(parents=True, exist_ok=True, mode=0o700)
                os.environ.update(variables)
                found: Any = first_batch.measure(sys.executable, name, folder, str(kept), batches=options.batches)
                if turn >= 0:
                    times[key].append(statistics.median(cpu for _, cpu in found["later"][2:]) * 1000)
        ratios = (statistics.median(a / b for a, b in zip(times[key], times["exact"])) for key in chosen if key != "exact")
        table.add(name, statistics.median(times["exact"]), *ratios)
        print(table.rows[-1], flush=True)
    table.print()


if __name__ == "__main__":
    main()
