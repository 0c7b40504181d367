"""The benchmarks, one function each; all return a Table."""

from __future__ import annotations

import glob
import os
import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import jpeg_classes, programs
from .harness import Contender, Table, checksum, interleave, paired_ratio, rate_table
from .isolated import cold_start, memory


@dataclass
class Settings:
    """The settings that all benchmarks share."""

    folder: str
    rounds: int
    seconds: float


def libraries() -> dict[str, Any]:
    """asyncdali, and DALI where it is installed."""
    import asyncdali

    found: dict[str, Any] = {"asyncdali": asyncdali}
    try:
        import nvidia.dali as dali

        found["DALI"] = dali
    except ImportError:
        pass
    return found


def _paths(folder: str) -> tuple[list[str], list[int]]:
    paths = sorted(glob.glob(os.path.join(folder, "*", "*.jp*g")))
    classes = sorted({os.path.dirname(path) for path in paths})
    return paths, [classes.index(os.path.dirname(path)) for path in paths]


def _dense_step(pipeline: Any) -> Callable[[], int]:
    def step() -> int:
        images, labels = pipeline.run()
        checksum(programs.dense(images))
        return len(labels)

    return step


def _ragged_step(pipeline: Any, copy: bool = True) -> Callable[[], int]:
    def step() -> int:
        images = pipeline.run()[0]
        for sample in programs.samples_of(images, copy):
            checksum(sample)
        return len(images)

    return step


def _verified(libs: dict[str, Any], make: Callable[[Any], Any], batches: int, images_bound: float) -> str:
    """Run both libraries side by side and report the largest difference of the batches. Labels must agree exactly."""
    if len(libs) < 2:
        return "DALI is not installed: not compared"
    ours, theirs = (make(lib) for lib in libs.values())
    worst, total, count, beyond = 0.0, 0.0, 0, 0
    for _ in range(batches):
        a, b = ours.run(), theirs.run()
        if not (np.asarray(a[1].as_tensor()) == np.asarray(b[1].as_tensor())).all():
            raise SystemExit("labels differ from DALI's")
        for x, y in zip(programs.samples_of(a[0]), programs.samples_of(b[0])):
            if x.shape != y.shape:
                raise SystemExit(f"shapes differ from DALI's: {x.shape} and {y.shape}")
            difference = np.abs(x.astype(np.float32) - y.astype(np.float32))
            worst, total, count = max(worst, float(difference.max())), total + float(difference.sum()), count + difference.size
            beyond += int((difference > images_bound).sum())
    _close(ours)
    if beyond > 1e-3 * count:
        raise SystemExit(f"pictures differ from DALI's: {beyond} of {count} values by more than {images_bound:.3g}")
    return f"{batches} batches equal DALI's: labels exactly, values by at most {worst:.3g}, {total / count:.2g} on average"


def _close(pipeline: Any) -> None:
    if hasattr(pipeline, "close"):
        pipeline.close()


def training(settings: Settings) -> Table:
    """The training pipeline against DALI, torch DataLoader, SPDL and Grain."""
    libs = libraries()
    note = _verified(libs, lambda lib: programs.training(lib, settings.folder), 4, 2 / 255 / 0.225)
    contenders = []
    for name, lib in libs.items():
        pipeline = programs.training(lib, settings.folder)
        contenders.append(Contender(f"{name}, 2 threads", _dense_step(pipeline), lambda pipeline=pipeline: _close(pipeline)))
    contenders += _rivals(settings)
    interleave(contenders, settings.rounds, settings.seconds)
    table = rate_table("training pipeline, batch 64", contenders, "samples/s", ">= 1.6 x DALI (stretch 2.0), >= 1.3 x the best other")
    table.notes.append(note)
    for contender in contenders:
        contender.close()
    return table


def _rivals(settings: Settings) -> list[Contender]:
    from .rivals.transform import fastest

    paths, labels = _paths(settings.folder)
    work = fastest(paths)
    found = []
    for module in ("torch_loader", "spdl_loader", "grain_loader"):
        try:
            imported = __import__(f"benchmarks.rivals.{module}", fromlist=["contender"])
            found.append(imported.contender(paths, labels, work, 64))
        except ImportError as error:
            print(f"  ({module} left out: {error})")
    return found


def training_busy(settings: Settings) -> Table:
    """The training pipelines while the main thread spins in pure Python. A second thread consumes the batches."""
    contenders = []
    for name, lib in libraries().items():
        pipeline = programs.training(lib, settings.folder)
        contenders.append(Contender(f"{name}, busy main thread", _beside_spinning(_dense_step(pipeline)), lambda p=pipeline: _close(p)))
    interleave(contenders, settings.rounds, settings.seconds, warm_up=1)
    table = rate_table("training pipeline beside a main thread spinning in pure Python", contenders, "samples/s", ">= 0.8 x DALI")
    for contender in contenders:
        contender.close()
    return table


def _beside_spinning(step: Callable[[], int], seconds: float = 1.0) -> Callable[[], int]:
    def measured() -> int:
        stop, done = threading.Event(), [0]

        def consume() -> None:
            while not stop.is_set():
                done[0] += step()

        thread = threading.Thread(target=consume)
        start = time.perf_counter()
        thread.start()
        count = 0
        while time.perf_counter() - start < seconds:
            for _ in range(1000):
                count += 1
        finished = done[0]
        stop.set()
        thread.join()
        return finished

    return measured


def threads(settings: Settings) -> Table:
    """The training pipeline with two threads against one."""
    import asyncdali

    contenders = []
    for count in (2, 1):
        pipeline = programs.training(asyncdali, settings.folder, threads=count)
        contenders.append(Contender(f"asyncdali, {count} thread(s)", _dense_step(pipeline), pipeline.close))
    interleave(contenders, settings.rounds, settings.seconds)
    for contender in contenders:
        contender.close()
    return rate_table("training pipeline, 2 threads against 1", contenders, "samples/s", ">= 1.85 x")


def gil(settings: Settings) -> Table:
    """Time that the interpreter lock is held per sample: CPU time of the process minus the time inside compiled code."""
    from .gil import held_per_sample

    found = [held_per_sample(settings.folder) for _ in range(settings.rounds)]
    table = Table("interpreter time per sample, training pipeline", ["contender", "us per sample (median)", "min", "max"])
    table.add("asyncdali", statistics.median(found), min(found), max(found))
    table.notes.append("target: <= 30 us; how it is measured: benchmarks/gil.py")
    return table


def notebook(settings: Settings) -> Table:
    """The notebook pipeline (decode and rotate), on the CPU and mixed on the host device."""
    libs = libraries()
    note = _verified(libs, lambda lib: programs.notebook(lib, settings.folder), 8, 2.0)
    contenders = []
    import asyncdali

    for name, lib, device, copy in (
        ("asyncdali, cpu", asyncdali, "cpu", False),
        ("asyncdali, mixed on the host device", asyncdali, "mixed", False),
        ("the same, read through as_cpu() copies", asyncdali, "mixed", True),
        ("DALI, cpu", libs.get("DALI"), "cpu", False),
    ):
        if lib is not None:
            pipeline = programs.notebook(lib, settings.folder, device=device)
            contenders.append(Contender(name, _ragged_step(pipeline, copy), lambda p=pipeline: _close(p)))
    interleave(contenders, settings.rounds, settings.seconds)
    table = rate_table("notebook pipeline, batch 8, 2 threads", contenders, "samples/s", ">= 4 x DALI; mixed >= 0.9 x cpu")
    table.notes.append(note)
    for contender in contenders:
        contender.close()
    return table


def decode(settings: Settings) -> Table:
    """Reading and decoding, against DALI and the libjpeg-turbo floor (simplejpeg, same flags, one thread per core)."""
    contenders = []
    libs = libraries()
    note = _verified(libs, lambda lib: programs.decode(lib, settings.folder), 4, 1.0)
    for name, lib in libs.items():
        pipeline = programs.decode(lib, settings.folder)
        contenders.append(Contender(f"{name}, 2 threads", _ragged_step(pipeline), lambda p=pipeline: _close(p)))
    try:
        contenders.append(_floor(settings.folder))
    except ImportError:
        print("  (floor left out: simplejpeg is not installed)")
    interleave(contenders, settings.rounds, settings.seconds)
    table = rate_table("decode only, batch 64", contenders, "samples/s", ">= 0.95 x the floor")
    table.notes.append(note)
    for contender in contenders:
        contender.close()
    return table


def _floor(folder: str, batch: int = 64) -> Contender:
    """libjpeg-turbo alone: two threads, files in memory, two batches of output memory in turn. The batches are read as all others are."""
    from concurrent.futures import ThreadPoolExecutor

    import simplejpeg

    data = [open(path, "rb").read() for path in _paths(folder)[0]]
    sizes = [simplejpeg.decode_jpeg_header(item)[:2] for item in data]
    largest = max(height * width * 3 for height, width in sizes)
    pool = ThreadPoolExecutor(2)
    memory = np.empty((2, batch, largest), np.uint8)
    position = [0]

    def part(k: int, start: int) -> None:
        target = memory[start // batch % 2]
        for slot in range(k, batch, 2):
            item = (start + slot) % len(data)
            simplejpeg.decode_jpeg(data[item], "RGB", fastdct=False, fastupsample=False, buffer=target[slot])

    running: list[Any] = []

    def start_next() -> None:
        running.append(([pool.submit(part, k, position[0]) for k in (0, 1)], position[0]))
        position[0] += batch

    def step() -> int:
        if not running:
            start_next()
        futures, start = running.pop()
        for future in futures:
            future.result()
        start_next()  # decoding continues while this batch is read, as in the pipelines
        for slot in range(batch):
            height, width = sizes[(start + slot) % len(data)]
            checksum(memory[start // batch % 2, slot, : height * width * 3])
        return batch

    return Contender("libjpeg-turbo floor, 2 threads", step, pool.shutdown)


def empty(settings: Settings) -> Table:
    """Cost of an iteration that only draws eight numbers."""
    contenders = []
    for name, lib in libraries().items():
        pipeline = programs.empty(lib)

        def step(pipeline: Any = pipeline) -> int:
            for _ in range(50):
                pipeline.run()
            return 50

        contenders.append(Contender(name, step, lambda p=pipeline: _close(p)))
    interleave(contenders, settings.rounds, settings.seconds)
    for contender in contenders:
        contender.close()
    return rate_table("empty iteration (one random.uniform, batch 8)", contenders, "iterations/s", ">= 0.4 x DALI (stretch 1.0)")


def checkpoint(settings: Settings) -> Table:
    """Size and cost of a checkpoint, cost of enabling checkpoints, cost of restoring."""
    from .checkpointing import measure

    return measure(settings.folder, settings.rounds)


def cold(settings: Settings) -> Table:
    """Times of import, build and first batch in fresh processes."""
    return cold_start(settings.folder)


def rss(settings: Settings) -> Table:
    """Memory of the training pipeline over many iterations, in fresh processes."""
    return memory(settings.folder, "DALI" in libraries())


def parity(settings: Settings) -> Table:
    """Parity of every operator with DALI over random arguments."""
    from .parity import parity as compare

    return compare(settings.folder, libraries())


def overlap(settings: Settings) -> Table:
    """Timed overlap of stages."""
    from .overlap import overlap as measure

    return measure()


def _parallel(kind: str) -> Callable[[Settings], Table]:
    def measure(settings: Settings) -> Table:
        from .sources import parallel_table

        return parallel_table(kind, _paths(settings.folder)[0], libraries(), settings.rounds, settings.seconds)

    return measure


def source_sequential(settings: Settings) -> Table:
    """A source in this process, sample by sample."""
    from .sources import sequential_table

    return sequential_table(libraries(), settings.rounds, settings.seconds)


def pool(settings: Settings) -> Table:
    """Time to start, repair and end the worker pool."""
    from .sources import pool_table

    return pool_table(settings.rounds)


def language(settings: Settings) -> Table:
    """The graph language: conditionals, expressions, functions of `math`, large graphs."""
    from .language import measure

    return measure(libraries(), settings.rounds)


def jpeg(settings: Settings) -> Table:
    """Our JPEG decoder beside libjpeg-turbo, by class of file."""
    return jpeg_classes.decoders(_paths(settings.folder)[0])


CASES: dict[str, Callable[[Settings], Table]] = {
    "training": training,
    "training-busy": training_busy,
    "threads": threads,
    "gil": gil,
    "notebook": notebook,
    "decode": decode,
    "empty": empty,
    "checkpoint": checkpoint,
    "cold": cold,
    "memory": rss,
    "parity": parity,
    "overlap": overlap,
    "language": language,
    "source-tiny": _parallel("tiny"),
    "source-arrays": _parallel("arrays"),
    "source-files": _parallel("files"),
    "source-opencv": _parallel("opencv"),
    "source-sequential": source_sequential,
    "pool": pool,
    "jpeg": jpeg,
}

__all__ = ["CASES", "Settings", "paired_ratio"]
