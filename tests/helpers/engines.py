"""Pipelines whose CPU part runs in engines, and their outputs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from asyncdali import Pipeline


def stream(pipe: Pipeline, count: int) -> list[list[list[bytes]]]:
    """The next iterations, as bytes of each sample of each output."""
    return [[[np.asarray(sample).tobytes() for sample in output] for output in pipe.run()] for _ in range(count)]


def data_files(folder: Path, count: int = 13) -> list[str]:
    """Files of different sizes."""
    made = []
    for k in range(count):
        path = folder / f"{k:03d}"
        path.write_bytes(bytes([k]) * (k * 1500 + 1))
        made.append(os.fspath(path))
    return made


def pipeline(define: Any, engines: int, **options: Any) -> Pipeline:
    """A pipeline of four samples; `define` returns its outputs."""
    defaults = {"batch_size": 4, "num_threads": 2, "seed": 11, "enable_checkpointing": True}
    pipe = Pipeline(**{**defaults, "engines": engines, **options})
    with pipe:
        outputs = define()
        pipe.set_outputs(*(outputs if isinstance(outputs, tuple) else (outputs,)))
    return pipe


def engine_pids() -> list[int]:
    """Process ids of the forked engines of this process (they are grandchildren), and of its children."""
    found, todo = [], [os.getpid()]
    while todo:
        pid = todo.pop()
        for task in os.listdir(f"/proc/{pid}/task"):
            try:
                with open(f"/proc/{pid}/task/{task}/children") as file:
                    children = list(map(int, file.read().split()))
            except OSError:
                continue
            found += children
            todo += children
    return found
