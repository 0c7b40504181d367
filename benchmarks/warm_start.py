"""From the start of Python to the first batch of JPEG training, warm, beside other libraries in turns.

    python -m benchmarks.warm_start asyncdali=PYTHON nvidia.dali=PYTHON grain=PYTHON [--rounds 7]

Each argument names a library and an interpreter that has it. Kernels are in the cache (or came with the package), files are in memory. Each
turn starts one process per library. Grain reads and decodes with OpenCV (``rivals/transform.py``) in two threads.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from . import first_batch
from .harness import Table, environment

_GRAIN = r"""
import time
began = time.perf_counter()
import glob, json, os, resource, sys
import grain
import numpy as np
sys.path.insert(0, sys.argv[2])
from benchmarks.rivals.transform import with_opencv
paths = sorted(glob.glob(os.path.join(sys.argv[1], "jpeg", "*", "*.jpg")))
def transform(index, random):
    with open(paths[index], "rb") as file:
        return with_opencv(file.read(), random), 0
dataset = grain.MapDataset.source(range(len(paths))).seed(0).shuffle().repeat(None).random_map(transform)
batches = iter(dataset.to_iter_dataset(grain.ReadOptions(num_threads=2, prefetch_buffer_size=128)).batch(32))
images, _ = next(batches)
assert np.asarray(images).shape == (32, 3, 224, 224)
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({"wall": time.perf_counter() - began, "own": used.ru_utime + used.ru_stime}), flush=True)
os._exit(0)
"""


def _grain(python: str, folder: Path) -> dict[str, Any]:
    command = [python, "-c", _GRAIN, str(folder), str(Path(__file__).parent.parent)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.warm_start", description=__doc__)
    parser.add_argument("contenders", nargs="+", metavar="LIBRARY=PYTHON")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    folder = Path(tempfile.gettempdir(), "asyncdali-bench-first-batch")
    first_batch.make_files(folder)
    info = environment()
    print(f"{info['date']}  {info['cpu']}  {info['cores']} cores  load {info['load']:.2f}")
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in options.contenders}
    for turn in range(-1, options.rounds):
        for name in options.contenders:
            library, _, python = name.partition("=")
            run = _grain(python, folder) if library == "grain" else first_batch.measure(python, "jpeg", folder, None, library, batches=1)
            if turn >= 0:
                found[name].append(run)
    table = Table("Python's start to the first batch, JPEG training", ["library", "cpu s", "wall s", "wall / first one's"])
    for name, runs in found.items():
        ratio = statistics.median(run["wall"] / own["wall"] for run, own in zip(runs, found[options.contenders[0]]))
        table.add(name, statistics.median(run["own"] for run in runs), statistics.median(run["wall"] for run in runs), ratio)
    table.notes.append(f"load at the end {os.getloadavg()[0]:.1f}")
    table.print()


if __name__ == "__main__":
    main()
