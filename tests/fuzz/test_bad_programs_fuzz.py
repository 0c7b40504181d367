"""Random pipelines with bad files, sources that raise, and regrouped batches: stopped and restored, they give one stream."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asyncdali import fn, pipeline_def

FILES, MOST = 47, 14


class Raised(Exception):
    pass


class Numbers:
    """A source that is asked by index, and raises for some indices. An epoch has `count` samples."""

    def __init__(self, count: int, broken: set[int]):
        self.count, self.broken = count, broken

    def __call__(self, info: Any) -> Any:
        if (info.iteration + 1) * self.size > self.count:
            raise StopIteration
        if info.idx_in_epoch in self.broken:
            raise Raised(info.idx_in_epoch)
        return np.int32([info.idx_in_epoch, 1 + info.idx_in_epoch * 7 % 12])

    size = 1


class Awaited(Numbers):
    async def __call__(self, info: Any) -> Any:  # type: ignore[override]
        return super().__call__(info)


def refuse(value: np.ndarray) -> np.ndarray:
    """A user function with bad samples of its own."""
    if value[0] % 19 == 5:
        raise ValueError(f"{value[0]}")
    return value


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made: Path = tmp_path_factory.mktemp("arrays")
    for k in range(FILES):
        np.save(made / f"{k:02}.npy", np.int32([k, 1 + k * 7 % 12]))
    for k in (3, 11, 12, 30, 44):
        (made / f"bad{k:02}.npy").write_bytes(b"nothing")
    return made


class Program:
    """A random pipeline. `make` builds it, with options that must not change the stream."""

    def __init__(self, seed: int, folder: Path):
        rng = self.rng = random.Random(seed)
        self.size = rng.randint(2, 7)
        self.origin = rng.choice(["files", "files", "source", "awaited"])
        names = [str(broken if (broken := folder / f"bad{k:02}.npy").exists() else folder / f"{k:02}.npy") for k in range(FILES)]
        order = rng.choice([{}, {"random_shuffle": True}, {"shuffle_after_epoch": True}])
        broken = set(rng.sample(range(40), rng.randint(0, 6)))
        kind = Awaited if self.origin == "awaited" else Numbers
        source = kind(rng.randint(2, 6) * self.size, broken)
        source.size = self.size
        regroup = rng.choice(["none", "select", "batch_by", "both"])
        checks, limit, budget, window = rng.random() < 0.5, rng.randint(3, 9), rng.randint(12, 50), rng.choice([5, 16, 100])
        refill = rng.random() < 0.5
        behind = rng.random() < 0.5
        rule = rng.choice(["replace", "drop"])
        self.on_error: Any = rng.choice([rule, rule, {"*": rule}, lambda error, entry: "drop" if entry.index % 2 else "replace"])
        if regroup in ("batch_by", "both") or behind:
            self.on_error = rule if callable(self.on_error) else self.on_error
        self.regroup = regroup
        self.words = (self.origin, order, regroup, {"checks": checks, "behind": behind, "refill": refill}, str(self.on_error))

        @pipeline_def(batch_size=self.size, device_id=None, seed=seed)
        def define() -> Any:
            if self.origin == "files":
                numbers = fn.readers.numpy(files=names, name="reader", seed=seed, **order)
            else:
                numbers = fn.external_source(source=source, batch=False, name="numbers")
            drawn = fn.random.uniform()
            if checks:
                numbers = fn.python_function(numbers, function=refuse, name="refusing")
            if regroup in ("select", "both"):
                numbers, drawn = fn.experimental.select(numbers, drawn, where=numbers[1] <= limit, refill=refill)
            if regroup in ("batch_by", "both"):
                numbers, drawn = fn.experimental.batch_by(numbers, drawn, length=numbers[1], budget=budget, window=window)
            if behind and not checks:
                numbers = fn.python_function(numbers, function=refuse, name="behind")
            return numbers, drawn, fn.random.uniform()

        self.define = define

    def make(self, checkpoint: bytes | None = None, plain: bool = False) -> Any:
        rng = self.rng
        options = {"num_threads": rng.choice([1, 3]), "prefetch_queue_depth": rng.choice([1, 2, 5])}
        options = {"num_threads": 2, "prefetch_queue_depth": 2} if plain else options
        pipe = self.define(on_error=self.on_error, enable_checkpointing=True, checkpoint=checkpoint, **options)
        pipe.build()
        return pipe


def events(pipe: Any, most: int) -> list[Any]:
    """The next batches, ends of epochs and errors."""
    found: list[Any] = []
    for _ in range(most):
        try:
            columns = pipe.run()
        except StopIteration:
            pipe.reset()
            found.append("end")
            continue
        except (RuntimeError, Raised) as error:
            found.append(type(error).__name__)
            continue
        found.append([
            (tuple(np.asarray(numbers).tolist()), float(np.asarray(before)), float(np.asarray(behind)))
            for numbers, before, behind in zip(*columns, strict=True)
        ])  # fmt: skip
    return found


def check(seed: int, folder: Path) -> str:
    """Returns what the program has seen."""
    program = Program(seed, folder)
    whole = program.make(plain=True)
    expected = events(whole, MOST)
    whole.close()
    again = program.make()
    assert events(again, MOST) == expected, (seed, program.words)
    again.close()
    made: list[Any] = []
    saved = None
    while len(made) < MOST:
        pipe = program.make(saved)
        made += events(pipe, min(program.rng.randint(1, 6), MOST - len(made)))
        saved = pipe.checkpoint()
        assert len(saved) <= 8192
        pipe.close()
    assert made == expected, (seed, program.words)
    return program.regroup if all(event == "end" or isinstance(event, list) for event in expected) else "errors"


def test_programs(folder):
    for seed in range(8):
        check(seed, folder)


@pytest.mark.slow
def test_many_programs(folder):
    seen = [check(seed, folder) for seed in range(100, 400)]
    counts = {what: seen.count(what) for what in sorted(set(seen))}
    print(f"programs {len(seen)} {counts}")
    assert all(counts.get(what, 0) >= 20 for what in ("none", "select", "batch_by", "both"))
