"""Engines as Ray actors beside Ray Data, in turns, each in a new program with a Ray cluster of its own: ``python -m benchmarks.ray_data``.

Both read JPEGs, decode, crop at random and resize to 224 x 224, mirror at random, and return ordered batches of 64 uint8 images. Ray Data
decodes with OpenCV in its tasks, one block per batch, and gets its files in random order, because its own shuffle waits for all files.

The clock of the first batch starts when Ray is ready: an actor that does nothing has started and ended. The time includes the imports of
asyncdali or of Ray Data, and the start of actors or tasks. A later epoch of Ray Data starts tasks again, in warm processes. A later
epoch of the engines begins with an empty queue. ``after it`` counts from the first batch on. ``processor`` is the processor time of the
program, of Ray's own processes and of all workers together. ``a bare actor`` is the time until the actor that does nothing has answered.

Ray lowers the priority of its workers. On a machine with other work, ``RAY_worker_niceness=0`` lets both sides compete with that work.
``python -m benchmarks.ray_data 48`` reads each picture 48 times in place of 12. Needs ray, pyarrow and pandas.
"""

from __future__ import annotations

import glob
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from time import perf_counter, sleep
from typing import Any

import numpy as np

from .pictures import picture_folder

BATCH = 64
ROUNDS = 5
PROCESSORS = 2
EPOCHS = "first epoch", "later epoch"
COLUMNS = "first batch s", "until it: processor s", "samples/s", "after it: samples/s", "processor us/sample"
Row = tuple[float, float, float, float, float]


def engines(paths: list[str]) -> Callable[[], Iterator[Any]]:
    """A function that begins an epoch of our batches."""
    from asyncdali.ray import Fleet, loader

    fleet = Fleet(actors=1, resources={"CPU": PROCESSORS}, lookahead=6)  # starts its actor
    from asyncdali import fn, pipeline_def

    @pipeline_def(batch_size=BATCH, num_threads=PROCESSORS, seed=1)
    def train() -> Any:
        jpegs, _ = fn.readers.file(files=paths, random_shuffle=True, name="reader")
        images = fn.decoders.image_random_crop(jpegs, random_area=[0.08, 1], random_aspect_ratio=[0.75, 1.33])
        return fn.flip(fn.resize(images, size=[224, 224]), horizontal=fn.random.coin_flip())

    batches = loader(train, fleet=fleet).__enter__()
    begun: list[bool] = []

    def epoch() -> Iterator[Any]:
        for _ in range(fleet.lookahead + 1 if begun else 0):
            batches.pipeline.run()  # empties the queue
        begun.append(True)
        return (np.asarray(batches.pipeline.run()[0].as_tensor()) for _ in iter(int, 1))

    return epoch


def ray_data(paths: list[str]) -> Callable[[], Iterator[Any]]:
    """A function that begins an epoch of Ray Data's batches."""
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
    loaded = data.map_batches(load, batch_size=BATCH)
    return lambda: (batch["image"] for batch in loaded.iter_batches(batch_size=BATCH, prefetch_batches=6))


SIDES = {"engines": engines, "Ray Data": ray_data}


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


def processor_time() -> float:
    """Processor seconds of this process and of all that it has started, with Ray's."""
    parents, used = {}, {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            continue  # the process has ended
        parents[int(name)], used[int(name)] = int(fields[1]), sum(map(int, fields[11:15]))
    mine = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in mine} - mine:
        mine |= more
    return sum(used.get(pid, 0) for pid in mine) / os.sysconf("SC_CLK_TCK")


def timed(batches: Iterator[Any], count: int, begin: float, used: float) -> Row:
    """One row of the table, from `begin` and the processor time `used` until then. A part of each batch is read."""
    first = until = 0.0
    for _ in range(count):
        int(next(batches).ravel()[::4096].sum())
        if not first:
            first, until = perf_counter() - begin, processor_time()
    elapsed, all_used = perf_counter() - begin, processor_time()
    after = (count - 1) * BATCH
    return first, until - used, count * BATCH / elapsed, after / (elapsed - first), 1e6 * (all_used - until) / after


def turn(side: str, repeats: int) -> dict[str, Any]:
    """The rows of one side's epochs, in a cluster of its own."""
    import ray

    ray.init(num_cpus=PROCESSORS, include_dashboard=False, log_to_driver=False)
    paths = sorted(glob.glob(os.path.join(picture_folder(None), "*", "*.jpg"))) * repeats
    count = len(paths) // BATCH
    found: dict[str, Any] = {"bare": bare(), "ray": ray.__version__, "count": count}
    sleep(1.0)  # the actor's process ends
    began = perf_counter(), processor_time()
    begin_epoch = SIDES[side](paths)
    for name in EPOCHS:
        found[name] = timed(begin_epoch(), count, *began)
        sleep(1.0)
        began = perf_counter(), processor_time()
    ray.shutdown()
    return found


def main(repeats: int) -> None:
    picture_folder(None)
    environment = dict(os.environ)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # users have the cache of compiled modules
    found: dict[str, list[dict[str, Any]]] = {side: [] for side in SIDES}
    for number in range(ROUNDS + 1):
        for side in SIDES:
            command = [sys.executable, "-m", "benchmarks.ray_data", side, str(repeats)]
            done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
            if done.returncode:
                raise SystemExit(done.stderr)
            if number:  # the first turns fill caches
                found[side].append(json.loads(done.stdout.splitlines()[-1]))
    turns = [item for items in found.values() for item in items]
    print(f"ray {turns[0]['ray']}, {PROCESSORS} processors, epochs of {turns[0]['count']} batches of {BATCH}, medians of {ROUNDS} turns")
    print(f"a bare actor of Ray: {statistics.median(item['bare'] for item in turns):.2f} s")
    for epoch in EPOCHS:
        print(f"\n{epoch:12}" + "".join(f"{name:>24}" for name in COLUMNS))
        medians = {side: [statistics.median(column) for column in zip(*(item[epoch] for item in items))] for side, items in found.items()}
        for side, row in medians.items():
            print(f"{side:12}" + "".join(f"{value:24,.2f}" for value in row))
        pairs = [[a / b for a, b in zip(*(item[epoch] for item in pair))] for pair in zip(*found.values())]
        print(f"{'ratio':12}" + "".join(f"{statistics.median(column):24.2f}" for column in zip(*pairs)))


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in SIDES:
        print(json.dumps(turn(sys.argv[1], int(sys.argv[2]))), flush=True)
    else:
        main(int(sys.argv[1]) if sys.argv[1:] else 12)
