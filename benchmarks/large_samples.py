"""Parallel sources of small to very large samples, beside DALI: time and shared memory (docs/workers.md).

``python -m benchmarks.large_samples [BYTES ...]`` runs each case in a separate process. Batches of two samples, two workers, depth 1.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from typing import Any

import numpy as np

CASES = {4: 20_000, 150_000: 4_000, 50_000_000: 40, 1_000_000_000: 8}
"""Number of batches by bytes of a sample."""


class Source:
    """Samples of `size` bytes. Each sample is a new array."""

    def __init__(self, size: int):
        self.size = size

    def __call__(self, info: Any) -> np.ndarray:
        return np.full(self.size, info.idx_in_epoch % 251, np.uint8)


def shared() -> int:
    """Shared memory in use on this machine, in bytes."""
    with open("/proc/meminfo") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Shmem:")) * 1024


def run(which: str, method: str, size: int, batches: int) -> tuple[float, float]:
    """(seconds, peak of shared memory in bytes), without the start of the workers."""
    if which == "DALI":
        from nvidia.dali import Pipeline, fn
    else:
        from asyncdali import Pipeline, fn
    before, peak, over = shared(), [0], threading.Event()

    def watch() -> None:
        while not over.wait(0.02):
            peak[0] = max(peak[0], shared() - before)

    pipe = Pipeline(batch_size=2, num_threads=1, device_id=None, py_num_workers=2, py_start_method=method, prefetch_queue_depth=1)
    with pipe:
        pipe.set_outputs(fn.external_source(source=Source(size), parallel=True, batch=False, prefetch_queue_depth=1))
    pipe.build()
    threading.Thread(target=watch, daemon=True).start()
    began = time.perf_counter()
    for k in range(batches):
        (outputs,) = pipe.run()
        for i in range(2):
            sample = np.asarray(outputs[i])
            assert sample[0] == sample[-1] == (2 * k + i) % 251 and len(sample) == size
        del outputs, sample
    took = time.perf_counter() - began
    over.set()
    return took, float(peak[0])


def main() -> None:
    if len(sys.argv) > 3 and sys.argv[1] == "one":
        which, method, size, batches = sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
        print(*run(which, method, size, batches))
        return
    print(f"{'bytes':>14}{'':>12}{'start':>8}{'seconds':>10}{'us/batch':>14}{'shared MB':>12}")
    for size in map(int, sys.argv[1:] or CASES):
        batches = CASES.get(size, 8)
        for method in ("fork", "spawn"):
            for which in ("asyncdali", "DALI") * (1 if size > 10**8 else 2):
                command = [sys.executable, "-m", "benchmarks.large_samples", "one", which, method, str(size), str(batches)]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                took, peak = map(float, done.stdout.split()[-2:])
                print(f"{size:>14,}{which:>12}{method:>8}{took:>10.2f}{took / batches * 1e6:>14,.1f}{peak / 1e6:>12,.1f}", flush=True)


if __name__ == "__main__":
    main()
