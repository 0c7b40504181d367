"""Checks the arguments of a pool."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass, replace
from typing import Any

from .source import Source

START_METHODS = ("fork", "spawn", "forkserver")


@dataclass(frozen=True)
class Settings:
    """The arguments of a pool besides its sources; `WorkerPool` documents them."""

    num_workers: int
    start_method: str = "fork"
    pickler: Any = None
    worker_timeout: float | None = None
    max_retries: int = 2
    seed: int | None = None
    name: str = "pool"

    def settled(self, sources: list[Source]) -> Settings:
        """These settings, checked, with no more workers than these sources can use.

        Raises ValueError for an argument that is not allowed.
        """
        check_arguments(sources, self.num_workers, self.start_method, self.pickler, self.worker_timeout, self.max_retries)
        return replace(self, num_workers=useful_workers(sources, self.num_workers))

    def drawn_seed(self) -> int:
        """The seed, or one that the system draws."""
        return int.from_bytes(os.urandom(8), "little") if self.seed is None else self.seed


def check_arguments(
    sources: list[Source], num_workers: int, start_method: str, pickler: object, timeout: float | None, retries: int
) -> None:
    if not sources:
        raise ValueError("a pool needs at least one source")
    for source in sources:
        source.check()
    if isinstance(num_workers, bool) or not isinstance(num_workers, int) or num_workers < 1:
        raise ValueError(f"num_workers is {num_workers!r}; a positive int is needed")
    if start_method not in START_METHODS:
        raise ValueError(f"start_method is {start_method!r}; allowed are {', '.join(map(repr, START_METHODS))}")
    if start_method == "fork" and pickler is not None:
        raise ValueError("a pickler cannot be given with start_method='fork', because nothing is pickled")
    if timeout is not None and timeout <= 0:
        raise ValueError(f"worker_timeout is {timeout}; it must be positive, or None")
    if retries < 0:
        raise ValueError(f"max_retries is {retries}; it cannot be negative")


def useful_workers(sources: list[Source], num_workers: int) -> int:
    """Warn if there are more workers than streams, and no other sources. The warning names the line that makes the pool."""
    if num_workers <= len(sources) or not all(source.dedicated for source in sources):
        return num_workers
    warnings.warn(
        f"{num_workers} workers were asked for, but each of the {len(sources)} sources is an iterable or a generator function, which one "
        f"worker iterates over. There will be run only {len(sources)} worker{'s' if len(sources) > 1 else ''}",
        Warning,
        stacklevel=5,  # this function, the settings, the engine, the pool, the pool's caller
    )
    return len(sources)
