"""``python -m benchmarks.gpu_busy [training | two_views]``: rate beside a thread that runs pure Python, without a GPU.

CUDA and nvJPEG are the stubs of ``benchmarks.gpu_interpreter``. A batch takes `--pace` milliseconds on the JPEG engines, and `--kernels`
milliseconds on the multiprocessors. Pictures are small, so the threads have almost no pixels to compute. On a GPU an iteration takes 7 ms
and Python's switch interval is 5 ms. Here both are twice as long by default, because this machine may be slower and busy.
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
import tempfile
import time
from types import SimpleNamespace
from typing import Any

import numpy as np

from . import gpu
from .gpu_interpreter import use_stub
from .gpu_training import busy_thread

_PICTURES = 256


def _small_pictures(folder: str) -> str:
    """JPEGs that a GPU's decoders take, and that a thread decodes in some microseconds."""
    from PIL import Image

    random = np.random.default_rng(0)
    for k in range(_PICTURES):
        where = os.path.join(folder, "pictures", str(k % 8))
        os.makedirs(where, exist_ok=True)
        pixels = random.integers(0, 256, (72 + k % 8, 80, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(os.path.join(where, f"{k:03}.jpg"), quality=50)
    return os.path.join(folder, "pictures")


def _seconds(pipe: Any, iterations: int) -> float:
    """Per iteration."""
    return gpu.BATCH / gpu.speed(pipe, iterations)


def report(name: str, photos: str, options: argparse.Namespace, folder: str) -> None:
    """Print one pipeline's times per iteration, quiet and beside the thread, in turns."""
    import asyncdali

    define = functools.partial(asyncdali.pipeline_def, engines=options.engines)
    package = SimpleNamespace(fn=asyncdali.fn, types=asyncdali.types, pipeline_def=define)
    pipe = getattr(gpu, name)(package, photos, options.threads, options.depth, hw_decoder_load=0.97)
    pipe.start_py_workers()
    use_stub(folder, options.pace, options.kernels)
    pipe.build()
    _seconds(pipe, 10 * options.depth)
    kept, quiet, used = sys.getswitchinterval(), [], []
    beside: dict[float, list[float]] = {interval: [] for interval in options.intervals}
    try:
        for _ in range(options.rounds):
            began = time.process_time()
            quiet.append(_seconds(pipe, options.iterations))
            used.append((time.process_time() - began) / (options.iterations + 8))
            for interval, found in beside.items():
                sys.setswitchinterval(interval / 1e3)
                with busy_thread():
                    found.append(_seconds(pipe, options.iterations))
                sys.setswitchinterval(kept)
    finally:
        sys.setswitchinterval(kept)
    parts = (f"at {interval:g} ms {np.median(np.divide(quiet, found)):.2f}" for interval, found in beside.items())
    print(
        f"{name:10} engines={options.engines}: {1e3 * np.median(quiet):.1f} ms per iteration, {1e6 * np.median(used):.0f} us of processor "
        f"time; part of the quiet rate by switch interval: {', '.join(parts)}", flush=True,
    )  # fmt: skip
    pipe.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("pipeline", nargs="?", default="training")  # one, because engines are forked before the process has a GPU
    parser.add_argument("--engines", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--depth", type=int, default=6)
    parser.add_argument("--iterations", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3, help="medians are printed")
    parser.add_argument("--pace", type=float, default=14.0, help="milliseconds that a batch takes on the JPEG engines")
    parser.add_argument("--kernels", type=float, default=1.0, help="milliseconds from the launches to the event behind them")
    parser.add_argument("--intervals", type=float, nargs="*", default=[10.0, 2.0], help="switch intervals, in milliseconds")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        report(options.pipeline, _small_pictures(folder), options, folder)


if __name__ == "__main__":
    main()
