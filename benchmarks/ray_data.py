"""Engines as Ray actors beside Ray Data, in turns, in one Ray cluster of this machine: ``python -m benchmarks.ray_data``.

Both read JPEGs, decode, crop and resize to 224 x 224, mirror, and return ordered batches of 64 uint8 images. Ray Data decodes with
OpenCV in its tasks, one block per batch, and gets its files in random order, because its own shuffle waits for all files. An epoch from
nothing includes the start of actors or tasks. A later epoch of the engines begins with an empty queue; Ray Data starts again in each epoch.
The last column leaves the start out: it counts from the first batch on. ``a bare actor`` is the start of a Ray actor that does nothing.
``python -m benchmarks.ray_data 48`` reads each picture 48 times in place of 12. Needs ray, pyarrow and pandas.
"""

from __future__ import annotations

import glob
import os
import statistics
import sys
from collections.abc import Iterator
from time import perf_counter
from typing import Any

import numpy as np

from .pictures import picture_folder

BATCH = 64
REPEATS = int(sys.argv[1]) if sys.argv[1:] else 12
"""Times that each picture is read in one measurement."""
ROUNDS = 3
PROCESSORS = 2


def ours(paths: list[str]) -> tuple[Any, Any]:
    """(fleet, loader)."""
    from asyncdali.ray import Fleet, loader

    fleet = Fleet(actors=PROCESSORS, resources={"CPU": 1}, lookahead=6)  # starts its actors
    from asyncdali import fn, pipeline_def

    @pipeline_def(batch_size=BATCH, num_threads=1, seed=1)
    def train() -> Any:
        jpegs, _ = fn.readers.file(files=paths, random_shuffle=True, name="reader")
        images = fn.random_resized_crop(fn.decoders.image(jpegs), size=[224, 224])
        return fn.flip(images, horizontal=fn.random.coin_flip())

    return fleet, loader(train, fleet=fleet).__enter__()


def rival(paths: list[str]) -> Iterator[Any]:
    """Batches of Ray Data."""
    import ray.data

    def load(batch: dict[str, Any]) -> dict[str, Any]:
        import cv2

        images = []
        for path in batch["path"]:
            rng = np.random.default_rng()
            image = cv2.cvtColor(cv2.imread(str(path)), cv2.COLOR_BGR2RGB)
            height, width = image.shape[:2]
            area, ratio = height * width * rng.uniform(0.08, 1), rng.uniform(0.75, 1.33)
            h, w = min(height, int((area / ratio) ** 0.5)), min(width, int((area * ratio) ** 0.5))
            y, x = rng.integers(0, height - h + 1), rng.integers(0, width - w + 1)
            image = cv2.resize(image[y : y + h, x : x + w], (224, 224))
            images.append(image[:, ::-1] if rng.random() < 0.5 else image)
        return {"image": np.stack(images)}

    context = ray.data.DataContext.get_current()
    context.execution_options.preserve_order = True
    context.enable_progress_bars = False
    shuffled = np.random.default_rng(1).permutation(paths).tolist()
    data = ray.data.from_items([{"path": path} for path in shuffled], override_num_blocks=len(paths) // BATCH)
    return iter(data.map_batches(load, batch_size=BATCH).iter_batches(batch_size=BATCH, prefetch_batches=6))


def bare() -> float:
    """Seconds until a Ray actor that does nothing has answered."""
    import ray

    class Bare:
        def answer(self) -> int:
            return 1

    begin = perf_counter()
    actor = ray.remote(num_cpus=1)(Bare).remote()  # type: ignore[attr-defined]
    ray.get(actor.answer.remote())
    found = perf_counter() - begin
    ray.kill(actor)
    return found


def timed(batches: Iterator[Any], count: int, begin: float) -> tuple[float, float, float]:
    """(seconds from `begin` to the first batch, samples per second of all, and after the first batch). A part of each batch is read."""
    first = 0.0
    for _ in range(count):
        int(next(batches).ravel()[::4096].sum())
        first = first or perf_counter() - begin
    elapsed = perf_counter() - begin
    return first, count * BATCH / elapsed, (count - 1) * BATCH / (elapsed - first)


def main() -> None:
    import ray

    ray.init(num_cpus=PROCESSORS, include_dashboard=False, log_to_driver=False)
    paths = sorted(glob.glob(os.path.join(picture_folder(None), "*", "*.jpg"))) * REPEATS
    count = len(paths) // BATCH
    found: dict[str, list[tuple[float, float, float]]] = {"engines": [], "engines, later epoch": [], "Ray Data": []}
    starts = []
    for _ in range(ROUNDS):
        starts.append(bare())
        begin = perf_counter()
        fleet, batches = ours(paths)
        stream = (np.stack([np.asarray(image) for image in batches.pipeline.run()[0]]) for _ in iter(int, 1))
        found["engines"].append(timed(stream, count, begin))
        timed(stream, 12, perf_counter())  # empties the queue
        found["engines, later epoch"].append(timed(stream, count, perf_counter()))
        batches.close()
        fleet.close()  # Ray Data gets all processors
        begin = perf_counter()
        found["Ray Data"].append(timed((batch["image"] for batch in rival(paths)), count, begin))
    print(f"ray {ray.__version__}, {PROCESSORS} processors, epochs of {count} batches of {BATCH}, medians of {ROUNDS}")
    print(f"a bare actor of Ray: {statistics.median(starts):.2f} s")
    print(f"{'':22} samples/s   first batch (s)   samples/s after it")
    for name, triples in found.items():
        first, rate, steady = (statistics.median(column) for column in zip(*triples))
        print(f"{name:22} {rate:9.0f} {first:17.2f} {steady:20.0f}   {[round(triple[1]) for triple in triples]}")
    ray.shutdown()


if __name__ == "__main__":
    main()
