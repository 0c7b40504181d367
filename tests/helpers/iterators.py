"""Pipelines of numbered samples, and the results of iterators over them."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Any

import numpy as np

import asyncdali


def numbered_files(folder: Path, count: int) -> list[str]:
    """`count` small files."""
    paths = [os.path.join(str(folder), f"{k:03d}.bin") for k in range(count)]
    for path in paths:
        Path(path).write_bytes(b"x")
    return paths


def reader_pipelines(files: list[str], batch: int, shards: int, ids: Any, lib: Any = asyncdali, checkpoints: Any = None,
                     random: bool = False, **reader: Any) -> list[Any]:  # fmt: skip
    """A pipeline per shard of `ids`; its output is the number of each file, int32[1] (and, if `random`, a draw)."""
    made = []
    for k, shard in enumerate(ids):
        options = {"enable_checkpointing": True, "checkpoint": checkpoints[k] if checkpoints else None}
        pipe = lib.Pipeline(batch_size=batch, num_threads=1, device_id=None, seed=7, **options)
        with pipe:
            _, numbers = lib.fn.readers.file(
                files=files, labels=list(range(len(files))), num_shards=shards, shard_id=shard, name="reader", **reader
            )
            pipe.set_outputs(numbers, *([lib.fn.random.uniform()] if random else []))
        made.append(pipe)
    return made


def source_pipeline(length: int, batch: int = 2, lib: Any = asyncdali, last: int | None = None, **options: Any) -> Any:
    """Batch i of a callable source is [10 i, 10 i + 1, ...]; the epoch has `length` batches, the last one `last` samples."""

    def source(iteration: int) -> Any:
        if iteration >= length:
            raise StopIteration
        count = last if last is not None and iteration == length - 1 else batch
        return [np.int64([10 * iteration + k]) for k in range(count)]

    pipe = lib.Pipeline(batch_size=batch, num_threads=1, device_id=None, **options)
    with pipe:
        pipe.set_outputs(lib.fn.external_source(source))
    return pipe


def numbers(batch: Any) -> Any:
    """A batch of an iterator as nested lists."""
    parts = batch if isinstance(batch, list) else [batch]
    return [{name: np.asarray(value).tolist() for name, value in part.items()} for part in parts]


def epochs(iterator: Any, count: int, limit: int = 50) -> list[Any]:
    """The results of `count` epochs: (len, size, batches) for each. The iterator must reset itself after each epoch."""
    found = []
    for _ in range(count):
        length, size = len(iterator), iterator.size
        found.append((length, size, [numbers(batch) for batch in itertools.islice(iterator, limit)]))
    return found


def walk(iterator: Any, steps: int) -> list[Any]:
    """`steps` calls of next: batches, and None for the end of an epoch. After an end the iterator is reset if it needs a reset."""
    found: list[Any] = []
    for _ in range(steps):
        try:
            found.append(numbers(next(iterator)))
        except StopIteration:
            found.append(None)
            if iterator._auto_reset == "no":
                iterator.reset()
    return found
