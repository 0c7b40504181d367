"""The training loop in dynamic mode, plain and captured, beside the pipeline of the same work, in one process, in turns.

    python -m benchmarks.dynamic_loop FOLDER [--rounds 10] [--batches 16] [--batch 64] [--threads 2]

`FOLDER` holds class folders of JPEGs. Prints for each round the processor time (all threads) and the time, per sample, and the
medians of the ratios pipeline / loop of the same round: 1 is the pipeline's cost and rate. All three read every output without copying it.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

import asyncdali.dynamic as ndd
from asyncdali import fn, pipeline_def, types

MEAN, STD = [0.485 * 255, 0.456 * 255, 0.406 * 255], [0.229 * 255, 0.224 * 255, 0.225 * 255]


def pipeline_steps(folder: str, batch: int, threads: int) -> Iterator[np.ndarray]:
    """Batches of the pipeline."""

    @pipeline_def(batch_size=batch, num_threads=threads, device_id=None, seed=1)
    def training() -> Any:
        files, labels = fn.readers.file(file_root=folder, random_shuffle=True, seed=1, name="reader")
        pictures = fn.decoders.image_random_crop(files)
        pictures = fn.resize(pictures, size=[224, 224])
        pictures = fn.crop_mirror_normalize(
            pictures, mirror=fn.random.coin_flip(), mean=MEAN, std=STD, dtype=types.FLOAT, output_layout="CHW"
        )
        return pictures, labels

    pipe = training()
    pipe.build()
    while True:
        pictures, labels = pipe.run()
        np.asarray(labels)
        yield np.asarray(pictures)


def dynamic_steps(folder: str, batch: int, threads: int, capture: bool) -> Iterator[np.ndarray]:
    """Batches of the loop."""
    reader = ndd.readers.File(file_root=folder, random_shuffle=True, seed=1)
    rng = ndd.random.RNG(1)
    context = ndd.EvalContext(num_threads=threads)
    while True:
        for files, labels in reader.next_epoch(batch_size=batch, capture=capture):
            with context:
                pictures = ndd.decoders.image_random_crop(files, rng=rng)
                pictures = ndd.resize(pictures, size=[224, 224])
                mirror = ndd.random.coin_flip(batch_size=batch, rng=rng)
                pictures = ndd.crop_mirror_normalize(
                    pictures, mirror=mirror, mean=MEAN, std=STD, dtype=ndd.float32, output_layout="CHW"
                )
                np.asarray(ndd.as_tensor(labels))
                found = np.asarray(ndd.as_tensor(pictures))
            yield found


def measured(steps: Iterator[np.ndarray], batches: int, batch: int) -> tuple[float, float]:
    """Microseconds of processor time, and of time, for each sample."""
    cpu, wall = time.process_time(), time.perf_counter()
    total = 0.0
    for _ in range(batches):
        total += float(next(steps)[..., ::16].sum())
    assert np.isfinite(total)
    return (time.process_time() - cpu) / batches / batch * 1e6, (time.perf_counter() - wall) / batches / batch * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--batches", type=int, default=16)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    settings = options.folder, options.batch, options.threads
    forms: dict[str, Callable[[], Iterator[np.ndarray]]] = {
        "pipeline": lambda: pipeline_steps(*settings),
        "plain": lambda: dynamic_steps(*settings, capture=False),
        "captured": lambda: dynamic_steps(*settings, capture=True),
    }
    running = {name: make() for name, make in forms.items()}
    threads = {name: ThreadPoolExecutor(1) for name in forms}  # calls of a thread belong to the captured loop that it is in
    for name in forms:
        threads[name].submit(measured, running[name], 6, options.batch).result()
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in forms}
    for turn in range(options.rounds):
        for name in list(forms)[:: 1 if turn % 2 else -1]:
            threads[name].submit(measured, running[name], 2, options.batch).result()  # the steps that the other form has computed ahead
            found[name].append(threads[name].submit(measured, running[name], options.batches, options.batch).result())
        print("  ".join(f"{name} {found[name][-1][0]:6.0f} {found[name][-1][1]:6.0f}" for name in forms), flush=True)
    for name in forms:
        ratios = [[base[k] / own[k] for base, own in zip(found["pipeline"], found[name], strict=True)] for k in range(2)]
        times = [statistics.median(item[k] for item in found[name]) for k in range(2)]
        print(
            f"{name:10} us of a sample: processor {times[0]:6.0f}, time {times[1]:6.0f}; of the pipeline's: processor "
            f"{statistics.median(ratios[0]):.3f}, rate {statistics.median(ratios[1]):.3f}"
        )


if __name__ == "__main__":
    main()
