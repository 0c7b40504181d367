"""Random pipelines that DALI and this library can run: a number chooses readers, draws, conditionals and sources."""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np


def write_files(folder: Path, count: int = 17) -> None:
    """Files for the readers."""
    for k in range(count):
        (folder / f"{k}.bin").write_bytes(bytes([k]) * (k + 1))
        np.save(folder / f"{k}.npy", np.array([k, 10 * k], np.int32))


def dali() -> Any:
    """The package nvidia.dali, with the modules that graphs use."""
    for name in ("fn", "types", "math"):
        importlib.import_module(f"nvidia.dali.{name}")
    return importlib.import_module("nvidia.dali")


class Program:
    """The program with the number `seed`. :meth:`make` makes it for a package.

    `sources`: with sources from Python, which serialized pipelines do not have.
    """

    def __init__(self, seed: int, folder: Path, sources: bool = True):
        choice = random.Random(seed)
        self.batch = choice.randint(1, 7)
        self.seed = choice.randrange(1000)
        self._folder, self._seed = folder, seed
        self._conditionals = choice.random() < 0.4
        self._sources = sources and choice.random() < 0.4

    def make(self, package: Any, **options: Any) -> Any:
        """The pipeline, made with `package`."""
        function = package.pipeline_def(self._graph(package), enable_conditionals=self._conditionals)
        given = {"batch_size": self.batch, "num_threads": 1, "device_id": None, "seed": self.seed, "enable_checkpointing": True}
        return function(**{**given, **options})

    def _graph(self, package: Any) -> Callable[[], Any]:
        def graph():
            choice, fn, types = random.Random(self._seed), package.fn, package.types
            outputs = [self._reader(choice, fn, k) for k in range(choice.randint(1, 3))]
            numbers = [fn.random.uniform(range=[0.0, 1.0])]
            for _ in range(choice.randint(1, 5)):
                numbers.append(self._draw(choice, package, numbers))
            if self._conditionals:
                numbers.append(_branch(fn, numbers[0], 0.2 + 0.6 * choice.random()))
            if self._sources:
                numbers.append(fn.external_source(_sample, batch=False, dtype=types.INT64))
            numbers.append(numbers[-1] * 2 + outputs[0])
            numbers.append(package.math.floor(fn.cast(outputs[0], dtype=types.FLOAT)[0] / 3))
            return (*outputs, *numbers)

        return graph

    def _reader(self, choice: random.Random, fn: Any, number: int) -> Any:
        count, shards = choice.randint(6, 17), choice.choice((1, 1, 2, 3))
        arguments: dict[str, Any] = {"num_shards": shards, "shard_id": choice.randrange(shards)}
        if choice.random() < 0.5:
            arguments["pad_last_batch"] = True
        shuffle = choice.choice(("no", "buffer", "buffer", "epoch"))
        if shuffle == "buffer":
            arguments |= {"random_shuffle": True, "initial_fill": choice.randint(1, 9)}
        elif shuffle == "epoch":
            arguments |= {"shuffle_after_epoch": True}
        if choice.random() < 0.3 and shuffle != "epoch":
            arguments["stick_to_shard"] = True
        if choice.random() < 0.5:
            arguments["name"] = f"reader{number}"
        if choice.random() < 0.3:
            arguments["seed"] = choice.randrange(100)
        if choice.random() < 0.3:
            return fn.readers.numpy(files=[str(self._folder / f"{k}.npy") for k in range(count)], **arguments)
        files = [str(self._folder / f"{k}.bin") for k in range(count)]
        return fn.readers.file(files=files, labels=list(range(count)), **arguments)[1]

    @staticmethod
    def _draw(choice: random.Random, package: Any, numbers: list[Any]) -> Any:
        fn, types = package.fn, package.types
        kind = choice.randrange(7)
        if kind == 0:
            return fn.random.coin_flip(probability=choice.random())
        if kind == 1:
            return fn.random.normal(mean=numbers[0], stddev=0.5)
        if kind == 2:
            return fn.batch_permutation()
        if kind == 3:
            return fn.noise.gaussian(fn.random.uniform(range=[-1.0, 1.0], shape=[choice.randint(1, 4)]), stddev=0.5)[0]
        if kind == 4:
            size = fn.cast(fn.random.uniform(range=[50, 200], shape=[2]), dtype=types.INT64)
            return fn.random_crop_generator(size)[choice.randrange(2)][0]
        if kind == 5:
            return fn.random.choice(choice.randint(2, 9))
        return fn.random.uniform(range=[0.0, 5.0], seed=choice.randrange(50)) + numbers[0]


def _branch(fn: Any, value: Any, limit: float) -> Any:
    if value > limit:
        result = fn.random.uniform(value, range=[2.0, 3.0])
    else:
        result = fn.random.normal(value) + value
    return result


def _sample(info: Any) -> np.ndarray:
    return np.int64(1000 * info.epoch_idx + 100 * info.iteration + info.idx_in_batch)


def batches(pipe: Any, count: int) -> list[Any]:
    """The outputs of the next iterations, as lists."""
    return [[[np.asarray(one.at(k)).tolist() for k in range(len(one))] for one in pipe.run()] for _ in range(count)]


def calls_of(package: Any) -> dict[str, Callable[[], Any]]:
    """The calls of ``tests/unit/graph/test_serialize_operators.py``, with the functions of `package`."""
    path = Path(__file__).parents[1] / "unit" / "graph" / "test_serialize_operators.py"
    text = path.read_text().split("\nCALLS |= {")[0]
    names: dict[str, Any] = {"__file__": str(path), "__name__": "calls"}
    exec(compile(text, str(path), "exec"), names)
    names["fn"], names["types"] = package.fn, package.types
    found: dict[str, Callable[[], Any]] = names["CALLS"]
    return found
