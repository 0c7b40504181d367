"""Engines for other machines, in this process or in separate processes."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from asyncdali.fleet import Actor

TOKEN = b"a token of the tests"
PROGRAM = Path(__file__).parent / "fleet_program.py"


@contextlib.contextmanager
def actors(train: Any, count: int, **options: Any) -> Iterator[list[Actor]]:
    """Actors in this process."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(Actor(train, token=TOKEN, **options)) for _ in range(count)]


@contextlib.contextmanager
def processes(
    folder: Path, count: int, program: str = f"{PROGRAM}:train", more: tuple[str, ...] = (), **environment: str
) -> Iterator[list[str]]:
    """Addresses of `asyncdali engine` processes."""
    token = folder / "token"
    token.write_bytes(TOKEN)
    token.chmod(0o600)
    command = [sys.executable, "-m", "asyncdali", "engine", "--listen", "127.0.0.1:0", "--token-file", os.fspath(token), *more, program]
    started: list[subprocess.Popen[str]] = []
    try:
        for _ in range(count):
            started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment}))
        yield [(process.stdout.readline() if process.stdout else "").split()[-1] for process in started]
    finally:
        for process in started:
            process.kill()
            process.communicate()


def batches_of(pipe: Any, count: int) -> list[list[list[bytes]]]:
    """The next batches, as bytes of each sample of each output."""
    return [[[np.asarray(sample).tobytes() for sample in output] for output in pipe.run()] for _ in range(count)]
