"""Cost of the PyTorch iterator beside ``pipe.run()``, and cost of a running pipeline for the training loop.

    python -m benchmarks.iterators [--data FOLDER] [--rounds N]
"""

from __future__ import annotations

import argparse
import functools
import os
import statistics
import threading
import time
from typing import Any

import numpy as np

from . import programs
from .harness import Contender, Table, interleave, median_interval, paired_ratio
from .pictures import picture_folder

BATCH, SHAPE = 64, (224, 224, 3)
STEP_SECONDS = 0.020


def ready(batch: int = BATCH) -> Any:
    """A pipeline that passes on ready batches. Only its own cost and the iterator's cost remain."""
    from asyncdali import Pipeline, fn

    data = np.zeros((batch, *SHAPE), np.uint8)
    pipe = Pipeline(batch_size=batch, num_threads=1)
    with pipe:
        pipe.set_outputs(fn.external_source(lambda i: data), fn.random.uniform())
    pipe.build()
    return pipe


def overhead(blocks: int, size: int, make: Any, what: str) -> Table:
    """Cost for the calling thread of `run`, of `run` with tensors made of its outputs, and of the iterator, in `blocks` blocks of `size`
    batches. A further row is `run` with the same number of tensors of other arrays: the time that torch itself needs to make and to drop
    them.

    All use one pipeline, so memory and the number of batches in flight are equal.
    """
    import torch

    from asyncdali.plugin.pytorch import DALIGenericIterator

    pipe = make()
    pipe.enable_api_check(False)
    iterator = DALIGenericIterator(pipe, ["images", "labels"], size=1 << 60)
    arrays = [np.zeros(1, np.float32) for _ in range(pipe.num_outputs)]
    calls = {
        "pipe.run()": pipe.run,
        "pipe.run(), and torch.from_numpy of arrays that are there": lambda: (pipe.run(), [torch.from_numpy(array) for array in arrays]),
        "pipe.run() and torch.from_dlpack": lambda: [torch.from_dlpack(output) for output in pipe.run()],
        "DALIGenericIterator": lambda: next(iterator),
    }
    wall: dict[str, list[float]] = {name: [] for name in calls}
    used: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(blocks + 1):
        for name in list(calls)[:: 1 if number % 2 else -1]:
            call = calls[name]
            began, processor = time.perf_counter(), time.thread_time()
            for _ in range(size):
                call()
            if number:  # the first round warms up
                wall[name].append((time.perf_counter() - began) / size * 1e6)
                used[name].append((time.thread_time() - processor) / size * 1e6)
    pipe.close()
    whole = statistics.median(wall["pipe.run()"])
    columns = ["", "us per batch", "of the calling thread, us", "more than run(), us", "of run(), %", "target"]
    table = Table(f"iterator overhead, {what}, batch {BATCH}", columns)
    for name in calls:
        more, low, high = median_interval([one - other for one, other in zip(used[name], used["pipe.run()"])])
        table.add(
            name, statistics.median(wall[name]), statistics.median(used[name]), f"{more:.1f} ({low:.1f} to {high:.1f})", 100 * more / whole,
            "< 5" if name == "DALIGenericIterator" else "",
        )  # fmt: skip
    table.notes.append(f"{blocks} blocks of {size} batches of each, in turns; differences: medians of the pairs, 95 % intervals")
    return table


def training_step(folder: str, rounds: int) -> Table:
    """A matmul loop of about 20 ms per step: with precomputed data, with a pipeline at half load, and with torch's DataLoader.

    Half load: a batch has the number of pictures that half of a step's processor time prepares. The pipeline's threads have their own core.
    The reference is a thread of compiled code on its own core: it shows how much speed the machine itself loses when its other core works.
    """
    import torch

    from asyncdali.plugin.pytorch import DALIGenericIterator

    cores = sorted(os.sched_getaffinity(0))
    matrix, repeats = torch.rand(512, 512), _repeats()

    def work() -> None:
        result = matrix
        for _ in range(repeats):
            result = torch.mm(matrix, result).clamp_(0, 1)

    began = time.perf_counter()
    for _ in range(20):
        work()
    batch = _half_load(folder, (time.perf_counter() - began) / 20)
    from .cases import _paths
    from .rivals import torch_loader
    from .rivals.transform import with_opencv

    # Made before threads are pinned: its processes may run on all cores.
    rival = torch_loader.contender(*_paths(folder), with_opencv, batch)
    neighbour = Neighbour(cores[-1], STEP_SECONDS / 2, batch * 3 * 224 * 224)
    os.environ["DALI_AFFINITY_MASK"] = str(cores[-1])
    pipe = programs.training(_asyncdali(), folder, batch, threads=1, set_affinity=True)
    os.sched_setaffinity(0, cores[:1])
    iterator = DALIGenericIterator(pipe, ["images", "labels"], size=1 << 60)
    precomputed = [next(iterator)[0] for _ in range(8)]
    position = iter(range(1 << 60))

    def plain() -> int:
        precomputed[next(position) % 8]["images"].sum()
        work()
        return 1

    def beside_nothing_of_python() -> int:
        neighbour.go()
        return plain()

    def beside() -> int:
        next(iterator)[0]["images"].sum()
        work()
        return 1

    def beside_torch() -> int:
        rival.step()
        work()
        return 1

    contenders = [
        Contender("precomputed", plain), Contender("compiled thread on the other core", beside_nothing_of_python),
        Contender("asyncdali, 1 thread", beside), Contender("torch DataLoader, 2 workers", beside_torch),
    ]  # fmt: skip
    load = {contender.name: _busy(contender) for contender in contenders[1:3]}
    interleave(contenders, rounds, 0.7)
    columns = ["", "ms per step", "slower, %", "target", "other threads, % of a core"]
    table = Table(f"training step beside the input pipeline, {batch} pictures per step", columns)
    for contender in contenders:
        slower = (1 / paired_ratio(contender, contenders[0]) - 1) * 100
        table.add(
            contender.name, 1e3 / contender.median, slower, "< 10" if "asyncdali" in contender.name else "", load.get(contender.name, "")
        )
    excess = (1 / paired_ratio(contenders[2], contenders[1]) - 1) * 100
    table.notes.append(f"asyncdali beyond the compiled thread: {excess:.1f} % (medians of {rounds} rounds, all in turns)")
    pipe.close()
    neighbour.close()
    rival.close()
    os.sched_setaffinity(0, cores)
    return table


class Neighbour:
    """A thread of compiled code on its own core. For every `go` it computes and writes `size` floats for `seconds`, without Python."""

    def __init__(self, core: int, seconds: float, size: int):
        import numba

        @numba.njit(nogil=True)
        def write(array: Any, times: int) -> None:
            for k in range(array.size):
                value = array[k]
                for _ in range(times):
                    value = value * np.float32(0.999) + np.float32(0.001)
                array[k] = value

        data = np.ones(size, np.float32)
        write(data, 1)
        times = 8
        for _ in range(8):
            began = time.thread_time()
            write(data, times)
            times = max(1, round(times * seconds / (time.thread_time() - began)))
        self._work = functools.partial(write, data, times)
        self._asked = threading.Semaphore(0)
        self._open = True
        self._thread = threading.Thread(target=self._serve, args=(core,), daemon=True)
        self._thread.start()

    def _serve(self, core: int) -> None:
        os.sched_setaffinity(0, [core])
        while self._asked.acquire() and self._open:
            self._work()

    def go(self) -> None:
        """Do one unit of work."""
        self._asked.release()

    def close(self) -> None:
        self._open = False
        self.go()
        self._thread.join()


def _busy(contender: Contender, seconds: float = 1.0) -> float:
    """Processor time of all threads but the calling one, as a percentage of the time."""
    contender.step()
    began, every, own = time.perf_counter(), time.process_time(), time.thread_time()
    while time.perf_counter() - began < seconds:
        contender.step()
    elapsed = time.perf_counter() - began
    return 100 * (time.process_time() - every - (time.thread_time() - own)) / elapsed


def _asyncdali() -> Any:
    import asyncdali

    return asyncdali


def _repeats() -> int:
    """Number of multiplications that take about `STEP_SECONDS`."""
    import torch

    matrix, times = torch.rand(512, 512), []
    for _ in range(30):
        start = time.perf_counter()
        torch.mm(matrix, matrix).clamp_(0, 1)
        times.append(time.perf_counter() - start)
    return max(1, round(STEP_SECONDS / statistics.median(times)))


def _half_load(folder: str, step: float) -> int:
    """Number of pictures that half of a step's seconds prepares, by the processor time of the pipeline's threads."""
    pipe = programs.training(_asyncdali(), folder, 16, threads=1)
    for _ in range(3):
        pipe.run()
    start, own = time.process_time(), time.thread_time()
    for _ in range(20):
        pipe.run()
    rate = 320 / (time.process_time() - start - (time.thread_time() - own))
    pipe.close()
    return max(1, round(rate * step / 2))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.iterators", description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder of class folders with JPEGs (default: ASYNCDALI_BENCH_DATA, else made ones)")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    os.environ.setdefault("ASYNCDALI_DEVICE", "host")
    folder = picture_folder(options.data)
    import torch

    torch.set_num_threads(1)  # for all contenders: the pipelines have their own threads
    print(f"load {os.getloadavg()[0]:.1f}")
    overhead(15 * options.rounds, 20, ready, "224x224x3, data ready").print()
    overhead(5 * options.rounds, 4, lambda: programs.training(_asyncdali(), folder), "training pipeline").print()
    training_step(folder, options.rounds).print()


if __name__ == "__main__":
    main()
