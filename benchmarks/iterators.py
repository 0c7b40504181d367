"""What the PyTorch iterator costs beside ``pipe.run()``, and what a running pipeline costs the training loop.

    python -m benchmarks.iterators [--data FOLDER] [--rounds N]
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from typing import Any

import numpy as np

from . import programs
from .harness import Contender, Table, interleave, paired_ratio
from .pictures import picture_folder

BATCH, SHAPE = 64, (224, 224, 3)
STEP_SECONDS = 0.020


def ready(batch: int = BATCH) -> Any:
    """A pipeline that hands on batches that are there already: nothing but its own cost, and the iterator's."""
    from asyncdali import Pipeline, fn

    data = np.zeros((batch, *SHAPE), np.uint8)
    pipe = Pipeline(batch_size=batch, num_threads=1)
    with pipe:
        pipe.set_outputs(fn.external_source(lambda i: data), fn.random.uniform())
    pipe.build()
    return pipe


def overhead(rounds: int, make: Any, what: str) -> Table:
    """Microseconds per batch of `run`, with tensors made of its outputs, and of the iterator."""
    import torch

    from asyncdali.plugin.pytorch import DALIGenericIterator

    plain, with_tensors = make(), make()
    iterator = DALIGenericIterator(make(), ["images", "labels"], size=1 << 60)

    def run() -> int:
        plain.run()
        return 1

    def run_and_convert() -> int:
        [torch.from_dlpack(output.as_tensor()) for output in with_tensors.run()]
        return 1

    def iterate() -> int:
        next(iterator)
        return 1

    contenders = [
        Contender("pipe.run()", run, plain.close), Contender("pipe.run() and torch.from_dlpack", run_and_convert, with_tensors.close),
        Contender("DALIGenericIterator", iterate, iterator._pipes[0].close),
    ]  # fmt: skip
    interleave(contenders, rounds, 1.0)
    table = Table(f"iterator overhead, {what}, batch {BATCH}", ["", "us per batch", "of run(), %", "target"])
    for contender in contenders:
        extra = (1 / paired_ratio(contender, contenders[0]) - 1) * 100
        table.add(contender.name, 1e6 / contender.median, extra, "< 5" if contender is contenders[-1] else "")
        contender.close()
    return table


def training_step(folder: str, rounds: int) -> Table:
    """A matmul loop of about 20 ms per step with its data precomputed, from a pipeline at half load, and from torch's DataLoader.

    Half load: as many pictures per batch as one thread prepares in half of a step.
    """
    import torch

    from asyncdali.plugin.pytorch import DALIGenericIterator

    matrix, repeats = torch.rand(512, 512), _repeats()

    def work() -> None:
        result = matrix
        for _ in range(repeats):
            result = torch.mm(matrix, result).clamp_(0, 1)

    batch = _half_load(folder)
    iterator = DALIGenericIterator(programs.training(_asyncdali(), folder, batch, threads=1), ["images", "labels"], size=1 << 60)
    precomputed = [next(iterator)[0] for _ in range(8)]
    from .cases import _paths
    from .rivals import torch_loader
    from .rivals.transform import with_opencv

    paths, labels = _paths(folder)
    rival = torch_loader.contender(paths, labels, with_opencv, batch)
    position = iter(range(1 << 60))

    def plain() -> int:
        precomputed[next(position) % 8]["images"].sum()
        work()
        return 1

    def beside() -> int:
        next(iterator)[0]["images"].sum()
        work()
        return 1

    def beside_torch() -> int:
        rival.step()
        work()
        return 1

    contenders = [
        Contender("precomputed", plain), Contender("asyncdali, 1 thread", beside), Contender("torch DataLoader, 2 workers", beside_torch)
    ]  # fmt: skip
    interleave(contenders, rounds, 2.0)
    table = Table(f"training step beside the input pipeline, {batch} pictures per step", ["", "ms per step", "slower, %", "target"])
    for contender in contenders:
        slower = (1 / paired_ratio(contender, contenders[0]) - 1) * 100
        table.add(contender.name, 1e3 / contender.median, slower, "< 10" if "asyncdali" in contender.name else "")
    iterator._pipes[0].close()
    rival.close()
    return table


def _asyncdali() -> Any:
    import asyncdali

    return asyncdali


def _repeats() -> int:
    """Multiplications that take about `STEP_SECONDS`."""
    import torch

    matrix, times = torch.rand(512, 512), []
    for _ in range(30):
        start = time.perf_counter()
        torch.mm(matrix, matrix).clamp_(0, 1)
        times.append(time.perf_counter() - start)
    return max(1, round(STEP_SECONDS / statistics.median(times)))


def _half_load(folder: str) -> int:
    """Pictures that one thread prepares in half of a step."""
    pipe = programs.training(_asyncdali(), folder, 16, threads=1)
    for _ in range(3):
        pipe.run()
    start = time.perf_counter()
    for _ in range(10):
        pipe.run()
    rate = 160 / (time.perf_counter() - start)
    pipe.close()
    return max(1, round(rate * STEP_SECONDS / 2))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.iterators", description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder of class folders with JPEGs (default: ASYNCDALI_BENCH_DATA, else made ones)")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    os.environ.setdefault("ASYNCDALI_DEVICE", "host")
    folder = picture_folder(options.data)
    import torch

    torch.set_num_threads(1)  # for all contenders: the pipelines have threads of their own
    print(f"load {os.getloadavg()[0]:.1f}")
    overhead(options.rounds, ready, "224x224x3, data ready").print()
    overhead(options.rounds, lambda: programs.training(_asyncdali(), folder), "training pipeline").print()
    training_step(folder, options.rounds).print()


if __name__ == "__main__":
    main()
