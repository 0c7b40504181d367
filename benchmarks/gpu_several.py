"""``python -m benchmarks.gpu_several GPUS``: one process per GPU, all at the same time, each with the whole data set.

A line per process and pipeline: pictures per second, processors in use, the most memory of the process, pinned memory, device memory. The
processes start to measure in the same second. ``examples/several_gpus.py`` trains under torchrun.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time

from .pictures import picture_folder

_SETTINGS = (("training", 8, 2), ("training", 14, 6), ("two_views", 8, 2), ("two_views", 14, 6), ("decoded", 8, 2))
"""Pipelines of ``benchmarks.gpu``, threads, prefetch depth."""
_SECONDS = 4.0


def _wait_for_the_others() -> None:
    """Until the next even second that is not too near: no process waits for a message."""
    left = 2 - time.time() % 2
    time.sleep(left if left > 0.3 else left + 2)


def one(rank: int, ranks: int, photos: str) -> None:
    """Measure all pipelines on the only GPU that this process sees."""
    import asyncdali

    from . import gpu

    for name, threads, depth in _SETTINGS:
        pipe = getattr(gpu, name)(asyncdali, photos, threads, depth)
        pipe.build()
        for _ in range(20):
            pipe.run()
        _wait_for_the_others()
        used, began, iterations = time.process_time(), time.perf_counter(), 0
        while time.perf_counter() - began < _SECONDS:
            pipe.run()
            iterations += 1
        took, used, device = time.perf_counter() - began, time.process_time() - used, pipe._core.session.gpu
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
        pinned = device.pinned.allocated_bytes + device.staging.allocated_bytes
        sys.stdout.write(
            f"{rank} of {ranks}: {name:10} {threads:2} threads, depth {depth}: {gpu.BATCH * iterations / took:6.0f} img/s, "
            f"{used / took:4.1f} processors, {most:5.0f} MB at most, pinned {pinned / 1e6:5.0f} MB, "
            f"device {device.pool.allocated_bytes / 1e6:5.0f} MB\n"
        )
        sys.stdout.flush()
        pipe.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("gpus", type=int)
    parser.add_argument("--photos", help="a folder of folders of JPEGs; by default the project's photos, else pictures that are made")
    parser.add_argument("--rank", type=int, default=-1, help="of one process; the program gives it to those that it starts")
    options = parser.parse_args()
    photos = picture_folder(options.photos)
    if options.rank >= 0:
        one(options.rank, options.gpus, photos)
        return
    command = [sys.executable, "-m", "benchmarks.gpu_several", str(options.gpus), "--photos", photos, "--rank"]
    running = [
        subprocess.Popen([*command, str(rank)], env={**os.environ, "ASYNCDALI_DEVICE": "cuda", "CUDA_VISIBLE_DEVICES": str(rank)})
        for rank in range(options.gpus)
    ]
    failed = [process.wait() for process in running]
    if any(failed):
        raise SystemExit(f"statuses of the processes: {failed}")


if __name__ == "__main__":
    main()
