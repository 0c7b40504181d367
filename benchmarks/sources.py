"""Data from Python: parallel and sequential sources, beside DALI and torch's DataLoader. The content of every batch is checked.

Callables are at module level, so that every start method finds them. Each returns data that depends on the index.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from .harness import Contender, Table, interleave, rate_table
from .programs import dense

BATCH = 64
WORKERS = 2
BIG = 150_000


def tiny(info: Any) -> np.ndarray:
    """4 bytes."""
    return np.array([info.idx_in_epoch], np.int32)


def array(info: Any) -> np.ndarray:
    """150 kB."""
    return np.full(BIG, info.idx_in_epoch % 251, np.uint8)


class Files:
    """Encoded pictures."""

    def __init__(self, paths: list[str]):
        self.paths = paths

    def __call__(self, info: Any) -> np.ndarray:
        return np.fromfile(self.paths[info.idx_in_epoch % len(self.paths)], np.uint8)


class Decoded:
    """Pictures decoded and resized by OpenCV. This work belongs to the callable."""

    def __init__(self, paths: list[str]):
        self.paths = paths

    def __call__(self, info: Any) -> np.ndarray:
        import cv2

        cv2.setNumThreads(1)
        picture = cv2.imread(self.paths[info.idx_in_epoch % len(self.paths)], cv2.IMREAD_COLOR)
        return cv2.resize(picture, (224, 224), interpolation=cv2.INTER_LINEAR)


# ---------------------------------------------------------------------------------------------------------------------- checks


def check_tiny(batch: Any, first: int) -> None:
    """Check that every sample is its index."""
    _expect(dense(batch).reshape(-1), np.arange(first, first + BATCH))


def check_array(batch: Any, first: int) -> None:
    """Check the beginning, middle and end of every sample."""
    found = dense(batch)
    wanted = np.arange(first, first + BATCH) % 251
    for place in (0, BIG // 2, BIG - 1):
        _expect(found[:, place], wanted)


class CheckSizes:
    """Check the size of every file, and for some samples the last bytes."""

    def __init__(self, paths: list[str]):
        self.sizes = np.array([os.path.getsize(path) for path in paths])
        self.ends = [np.fromfile(path, np.uint8)[-8:] for path in paths]

    def __call__(self, batch: Any, first: int) -> None:
        index = np.arange(first, first + BATCH) % len(self.sizes)
        _expect(np.array(batch.shape())[:, 0], self.sizes[index])
        for k in (0, BATCH // 2, BATCH - 1):
            _expect(np.asarray(batch[k])[-8:], self.ends[index[k]])


def check_nothing(batch: Any, first: int) -> None:
    """No check: the picture tests cover the content, and here the callable's own work is measured."""
    if len(batch) != BATCH:
        raise SystemExit("a batch is short")


def _expect(found: np.ndarray, wanted: np.ndarray) -> None:
    if not (np.asarray(found) == wanted).all():
        raise SystemExit("a batch does not hold what was asked for")


# ------------------------------------------------------------------------------------------------------------------ contenders


def pipeline_contender(name: str, library: Any, source: Any, check: Callable[[Any, int], None], ahead: int | None) -> Contender:
    """A pipeline with only the source. `ahead` is its prefetch depth; None means a source in this process."""
    parallel = {} if ahead is None else {"parallel": True, "prefetch_queue_depth": ahead}
    pipeline = library.Pipeline(batch_size=BATCH, num_threads=2, device_id=None, prefetch_queue_depth=2, py_num_workers=WORKERS)
    with pipeline:
        pipeline.set_outputs(library.fn.external_source(source, batch=False, **parallel))
    pipeline.start_py_workers()
    pipeline.build()
    first = 0

    def step() -> int:
        nonlocal first
        (batch,) = pipeline.run()
        check(batch, first)
        first += BATCH
        return BATCH

    def close() -> None:
        nonlocal pipeline
        if hasattr(pipeline, "close"):
            pipeline.close()
        pipeline = None

    return Contender(name, step, close)


class _Mapped:
    """A map-style data set over a callable of positions."""

    def __init__(self, source: Any):
        self.source = source

    def __len__(self) -> int:
        return 1 << 40

    def __getitem__(self, index: int) -> np.ndarray:
        from asyncdali_workers import SampleInfo

        return self.source(SampleInfo(index, index % BATCH, index // BATCH, 0))


class _Counting:
    """Endless indices in order."""

    def __iter__(self) -> Any:
        index = 0
        while True:
            yield index
            index += 1

    def __len__(self) -> int:
        return 1 << 40


def joined(items: list[np.ndarray]) -> Any:
    """Samples of different sizes in one tensor, with their sizes: the cheapest form for torch's workers."""
    import torch

    return torch.from_numpy(np.concatenate(items)), torch.tensor([len(item) for item in items])


def torch_contender(source: Any, check: Callable[[Any, int], None] | None, ragged: bool) -> Contender:
    """torch.utils.data.DataLoader with the same number of workers."""
    import torch

    loader = torch.utils.data.DataLoader(
        _Mapped(source), batch_size=BATCH, sampler=_Counting(), num_workers=WORKERS, prefetch_factor=2,
        collate_fn=joined if ragged else None, multiprocessing_context="forkserver",
    )  # fmt: skip
    batches = iter(loader)
    first = 0

    def step() -> int:
        nonlocal first
        batch = next(batches)
        if check is not None:
            check(batch.numpy(), first)
        first += BATCH
        return BATCH

    def close() -> None:
        nonlocal batches
        batches = None

    return Contender("torch DataLoader, 2 workers", step, close)


def _bare_worker(source: Any, pipe: Any, first: int) -> None:
    """Run the callable and keep nothing."""
    from asyncdali_workers import SampleInfo

    index = first
    while (count := pipe.recv()) is not None:
        for _ in range(count):
            source(SampleInfo(index, index % BATCH, index // BATCH, 0))
            index += WORKERS
        pipe.send(count)


def bare_contender(source: Any) -> Contender:
    """Two processes that run the callable and return nothing."""
    context = multiprocessing.get_context("forkserver")
    pipes, processes = [], []
    for k in range(WORKERS):
        here, there = context.Pipe()
        process = context.Process(target=_bare_worker, args=(source, there, k), daemon=True)
        process.start()
        pipes.append(here)
        processes.append(process)

    def step() -> int:
        for pipe in pipes:
            pipe.send(4 * BATCH)
        return sum(pipe.recv() for pipe in pipes)

    def close() -> None:
        for pipe in pipes:
            pipe.send(None)
        for process in processes:
            process.join()

    return Contender("two bare processes", step, close)


# ---------------------------------------------------------------------------------------------------------------------- tables


def parallel_table(kind: str, paths: list[str], libraries: dict[str, Any], rounds: int, seconds: float) -> Table:
    """One kind of source, with all contenders in one run."""
    sources = {"tiny": tiny, "arrays": array, "files": Files(paths), "opencv": Decoded(paths)}
    checks = {"tiny": check_tiny, "arrays": check_array, "files": CheckSizes(paths), "opencv": check_nothing}
    targets = {
        "tiny": ">= 2 x DALI at its best depth", "arrays": ">= 2.5 x DALI at its best depth", "files": ">= 1.5 x DALI at its best depth",
        "opencv": ">= 0.95 x two bare processes",
    }  # fmt: skip
    source, check = sources[kind], checks[kind]
    contenders = [pipeline_contender("asyncdali, 2 ahead", libraries["asyncdali"], source, check, 2)]
    if kind == "opencv":
        contenders.append(bare_contender(source))
    if "DALI" in libraries:
        contenders += [pipeline_contender(f"DALI, {ahead} ahead", libraries["DALI"], source, check, ahead) for ahead in (1, 2, 4)]
    try:
        contenders.append(torch_contender(source, None if kind in ("files", "opencv") else _as_array(check), kind == "files"))
    except ImportError:
        pass
    interleave(contenders, rounds, seconds)
    for contender in contenders:
        contender.close()
    titles = {
        "tiny": "4-byte samples", "arrays": "150 kB arrays", "files": "JPEG bytes from files", "opencv": "OpenCV decode and resize",
    }  # fmt: skip
    return rate_table(f"parallel source, {titles[kind]}, batch {BATCH}, 2 workers", contenders, "samples/s", targets[kind])


def _as_array(check: Callable[[Any, int], None]) -> Callable[[Any, int], None]:
    def checked(batch: np.ndarray, first: int) -> None:
        if check is check_tiny:
            _expect(batch.reshape(-1), np.arange(first, first + BATCH))
        else:
            _expect(batch[:, [0, BIG // 2, BIG - 1]], (np.arange(first, first + BATCH) % 251)[:, None])

    return checked


def sequential_table(libraries: dict[str, Any], rounds: int, seconds: float) -> Table:
    """A source in this process, sample by sample."""
    contenders = [pipeline_contender(name, library, tiny, check_tiny, None) for name, library in libraries.items()]
    interleave(contenders, rounds, seconds)
    for contender in contenders:
        contender.close()
    return rate_table(f"sequential source, 4-byte samples, batch {BATCH}", contenders, "samples/s", ">= 1.0 x DALI")


def pool_table(runs: int = 7) -> Table:
    """Start of a pool, and recovery after a worker was killed."""
    import signal
    import statistics

    from asyncdali_workers import Source, WorkerPool

    table = Table("worker pool", ["what", "median", "max", "target"])

    def pool_of(method: str) -> Any:
        return WorkerPool([Source(tiny, kind="samples", batch_size=BATCH)], num_workers=WORKERS, start_method=method)

    for method in ("fork", "spawn", "forkserver"):
        times = []
        for _ in range(runs):
            start = time.perf_counter()
            pool = pool_of(method)
            pool.start()
            times.append(time.perf_counter() - start)
            pool.close()
        table.add(f"start, {method}, s", statistics.median(times), max(times), "< 1 s (spawn)")
    times = []
    for _ in range(runs):
        pool = WorkerPool([Source(tiny, kind="samples", batch_size=BATCH)], num_workers=1, start_method="fork")
        pool.start()
        pool.receive(pool.submit(0, 0, 0))
        os.kill(pool.pids[0], signal.SIGKILL)
        start = time.perf_counter()
        pool.receive(pool.submit(0, 1, 0))
        times.append(time.perf_counter() - start)
        pool.close()
    table.add("first result after the only worker was killed (fork), s", statistics.median(times), max(times), "< 0.3 s")
    times = []
    for _ in range(runs):
        pool = WorkerPool([Source(sleeping, kind="samples", batch_size=BATCH)], num_workers=WORKERS, start_method="fork")
        pool.start()
        pool.submit(0, 0, 0)
        start = time.perf_counter()
        pool.close()
        times.append(time.perf_counter() - start)
    table.add("close with busy workers, s", statistics.median(times), max(times), "< 1 s")
    return table


def sleeping(info: Any) -> np.ndarray:
    """A case that never ends."""
    time.sleep(3600)
    return np.zeros(1)
