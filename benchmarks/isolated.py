"""Measurements that need a separate process: cold start and memory."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from typing import Any

from .harness import Table

_COLD = """
import json, sys, time
start = time.perf_counter()
import asyncdali
imported = time.perf_counter() - start
from benchmarks import programs
start = time.perf_counter()
pipeline = programs.training(asyncdali, sys.argv[1])
pipeline.run()
print(json.dumps([imported, time.perf_counter() - start]))
"""

_MEMORY = """
import json, resource, sys
library = __import__(sys.argv[1], fromlist=["pipeline_def"])
from benchmarks import programs
from benchmarks.harness import checksum
def rss():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 2**20
pipeline = programs.training(library, sys.argv[2])
marks = {}
for iteration in range(1, int(sys.argv[3]) + 1):
    images, labels = pipeline.run()
    checksum(programs.dense(images))
    if iteration in (500, int(sys.argv[3])):
        marks[iteration] = rss()
print(json.dumps([marks, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
"""


def _run(code: str, *args: str, environment: dict[str, str] | None = None) -> Any:
    full = {**os.environ, "ASYNCDALI_DEVICE": "host", **(environment or {})}
    full.pop("PYTHONDONTWRITEBYTECODE", None)  # users have the cache of compiled modules, too
    done = subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, env=full, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.strip().splitlines()[-1])


def cold_start(folder: str, runs: int = 5) -> Table:
    """Time of import, and of build + first batch, with warm and with empty compilation caches."""
    table = Table("cold start of the training pipeline", ["what", "median s", "target s"])
    _run(_COLD, folder)
    warm = [_run(_COLD, folder) for _ in range(runs)]
    table.add("import asyncdali", statistics.median(item[0] for item in warm), 0.15)
    table.add("build + first batch, warm caches", statistics.median(item[1] for item in warm), 1.0)
    empty = []
    for _ in range(2):
        with tempfile.TemporaryDirectory() as cache:
            empty.append(_run(_COLD, folder, environment={"NUMBA_CACHE_DIR": cache})[1])
    table.add("build + first batch, empty caches", statistics.median(empty), 8.0)
    return table


def memory(folder: str, with_dali: bool, iterations: int = 5000) -> Table:
    """RSS after 500 iterations and after all, and the peak."""
    table = Table("memory of the training pipeline (MB)", ["library", "at 500", f"at {iterations}", "growth %", "peak", "peak / DALI's"])
    ours, peak = _run(_MEMORY, "asyncdali", folder, str(iterations))
    their_peak = _run(_MEMORY, "nvidia.dali", folder, "500")[1] if with_dali else None
    first, last = ours["500"], ours[str(iterations)]
    table.add("asyncdali", first, last, 100 * (last / first - 1), peak, peak / their_peak if their_peak else "-")
    if their_peak:
        table.add("DALI", "-", "-", "-", their_peak, 1.0)
    table.notes.append("target: growth < 2 %, peak <= 1.3 x DALI's")
    return table
