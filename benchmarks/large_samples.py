"""Parallel sources of small to very large samples, beside DALI: time and shared memory (docs/workers.md).

``python -m benchmarks.large_samples [BYTES ...]`` runs each case in a separate process. Batches of two samples, two workers, depth 1.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from typing import Any

import numpy as np

CASES = {4: 20_000, 150_000: 4_000, 50_000_000: 40, 1_000_000_000: 8, 2_000_000_000: 8}
"""Number of batches by bytes of a sample."""


class Source:
    """Samples of `size` bytes. Each sample is a new array."""

    def __init__(self, size: int):
        self.size = size

    def __call__(self, info: Any) -> np.ndarray:
        return np.full(self.size, info.idx_in_epoch % 251, np.uint8)


def shared(root: int) -> int:
    """Shared memory of a process and its descendants, in bytes: anonymous files and files in /dev/shm, whether mapped or only open."""
    found: dict[tuple[int, int], int] = {}
    for pid in descendants(root):
        for folder in ("fd", "map_files"):
            with contextlib.suppress(OSError):  # the process has ended
                for name in os.listdir(f"/proc/{pid}/{folder}"):
                    path = f"/proc/{pid}/{folder}/{name}"
                    with contextlib.suppress(OSError):  # the descriptor was closed
                        if os.readlink(path).startswith(("/memfd:", "/dev/shm/", "/dev/zero", "/SYSV")):
                            status = os.stat(path)
                            found[status.st_dev, status.st_ino] = status.st_blocks * 512
    return sum(found.values())


def descendants(root: int) -> list[int]:
    """A process and all processes that it and its children have started."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat") as file:
                children.setdefault(int(file.read().rpartition(")")[2].split()[1]), []).append(int(name))
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return found


def run(which: str, method: str, size: int, batches: int) -> float:
    """Seconds, without the start of the workers."""
    if which == "DALI":
        from nvidia.dali import Pipeline, fn
    else:
        from asyncdali import Pipeline, fn
    pipe = Pipeline(batch_size=2, num_threads=1, device_id=None, py_num_workers=2, py_start_method=method, prefetch_queue_depth=1)
    with pipe:
        pipe.set_outputs(fn.external_source(source=Source(size), parallel=True, batch=False, prefetch_queue_depth=1))
    pipe.build()
    began = time.perf_counter()
    for k in range(batches):
        (outputs,) = pipe.run()
        for i in range(2):
            sample = np.asarray(outputs[i])
            assert sample[0] == sample[-1] == (2 * k + i) % 251 and len(sample) == size
        del outputs, sample
    return time.perf_counter() - began


def measured(which: str, method: str, size: int, batches: int) -> tuple[float, float]:
    """(seconds, peak of shared memory in bytes) of a separate process, whose memory is read ten times a second."""
    command = [sys.executable, "-m", "benchmarks.large_samples", "one", which, method, str(size), str(batches)]
    peak = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            peak = max(peak, shared(process.pid))
            time.sleep(0.1)
        assert process.stdout is not None
        output = process.stdout.read()
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with status {process.returncode}")
    return float(output.split()[-1]), float(peak)


def main() -> None:
    if len(sys.argv) > 3 and sys.argv[1] == "one":
        which, method, size, batches = sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
        print(run(which, method, size, batches))
        return
    print(f"{'bytes':>14}{'':>12}{'start':>8}{'seconds':>10}{'us/batch':>14}{'shared MB':>12}")
    for size in map(int, sys.argv[1:] or CASES):
        batches = CASES.get(size, 8)
        for method in ("fork", "spawn"):
            for which in ("asyncdali", "DALI") * (1 if size > 10**8 else 2):
                took, peak = measured(which, method, size, batches)
                print(f"{size:>14,}{which:>12}{method:>8}{took:>10.2f}{took / batches * 1e6:>14,.1f}{peak / 1e6:>12,.3f}", flush=True)


if __name__ == "__main__":
    main()
