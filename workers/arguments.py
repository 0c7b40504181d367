"""Checks the arguments of a pool."""

from __future__ import annotations

import warnings
from typing import Any

from .source import Source

START_METHODS = ("fork", "spawn", "forkserver")


def check_arguments(sources: list[Source], num_workers: int, start_method: str, pickler: Any, timeout: float | None, retries: int) -> None:
    if not sources:
        raise ValueError("a pool needs at least one source")
    for source in sources:
        source.check()
    if isinstance(num_workers, bool) or not isinstance(num_workers, int) or num_workers < 1:
        raise ValueError(f"num_workers is {num_workers!r}; a positive int is needed")
    if start_method not in START_METHODS:
        raise ValueError(f"start_method is {start_method!r}; allowed are {', '.join(map(repr, START_METHODS))}")
    if start_method == "fork" and pickler is not None:
        raise ValueError("a pickler is of no use with start_method='fork', where nothing is pickled")
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
        f"worker walks through. There will be run only {len(sources)} worker{'s' if len(sources) > 1 else ''}",
        Warning,
        stacklevel=4,  # this function, the engine, the pool, the pool's caller
    )
    return len(sources)
