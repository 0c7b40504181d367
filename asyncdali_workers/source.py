"""Descriptions of the sources that a pool runs."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .worker.states import OUTCOMES

KINDS = ("samples", "batch", "stream")
CYCLES = (None, "quiet", "raise")


@dataclass
class Source:
    """A callable that is asked by position, or a stream that one worker iterates over.

    callback: a callable with one argument; for kind "stream" an iterable or a generator function.
    kind: "samples": ``callback(SampleInfo)`` for each sample; "batch": ``callback(int)`` or ``callback(BatchInfo)`` for each batch;
        "stream": the next batch of ``iter(callback)``, always in the same worker.
    batch_size: the largest number of samples in a batch.
    num_outputs: number of components of a result; None: the result is no tuple.
    batch_info: kind "batch" gets a BatchInfo.
    cycle: kind "stream": None, "quiet" or "raise".
    prefetch: number of batches that may be requested at a time. It determines memory and is not enforced.
    bytes_per_sample_hint: expected size of a sample in bytes.
    name: for messages.
    snapshot_every: kind "stream" with ``state_dict()``: take a snapshot after every n-th pull; 0: never.
    state: the argument of ``load_state_dict()`` before the first pull.
    asks: requests after that state: runs of ("batch", "error" or "end", count), which are repeated before the first pull.
    encode_state: converts a state to bytes in the worker; None: pickle.
    """

    callback: Any
    kind: str
    batch_size: int
    num_outputs: int | None = None
    batch_info: bool = False
    cycle: str | None = None
    prefetch: int = 1
    bytes_per_sample_hint: int | None = None
    name: str = "source"
    snapshot_every: int = 0
    state: Any = None
    asks: tuple[tuple[str, int], ...] = ()
    encode_state: Callable[[Any], bytes] | None = None

    def check(self) -> None:
        """Refuse descriptions that no worker could run."""
        if self.kind not in KINDS:
            raise ValueError(f"{self.name}: kind is {self.kind!r}; allowed are {', '.join(map(repr, KINDS))}")
        if self.cycle not in CYCLES:
            raise ValueError(f"{self.name}: cycle is {self.cycle!r}; allowed are None, 'quiet' and 'raise'")
        for what, least in (("batch_size", 1), ("prefetch", 1), ("snapshot_every", 0)):
            if getattr(self, what) < least:
                raise ValueError(f"{self.name}: {what} is {getattr(self, what)}; at least {least} is needed")
        if not all(outcome in OUTCOMES and count >= 1 for outcome, count in self.asks):
            raise ValueError(f"{self.name}: asks are {self.asks!r}; expected runs of an outcome ({', '.join(OUTCOMES)}) and its count")
        if self.num_outputs is not None and self.num_outputs < 1:
            raise ValueError(f"{self.name}: num_outputs is {self.num_outputs}; it must be positive, or None")
        if self.kind == "stream":
            if not (is_generator_function(self.callback) or is_iterable(self.callback) or callable(self.callback)):
                raise TypeError(f"{self.name}: a stream is an iterable or a generator function, not {type(self.callback).__name__}")
        elif not callable(self.callback):
            raise TypeError(f"{self.name}: a callable is needed, not {type(self.callback).__name__}")

    @property
    def dedicated(self) -> bool:
        """Whether only one worker runs it."""
        return self.kind == "stream"

    def slices(self, workers: int) -> int:
        """Least number of slices of a batch when all workers share it."""
        return min(workers, self.batch_size) if self.kind == "samples" else 1


def is_iterable(value: object) -> bool:
    return hasattr(type(value), "__iter__") or hasattr(type(value), "__getitem__")


def is_generator_function(value: object) -> bool:
    """A generator function, a partial of one, or an object whose ``__call__`` is one."""
    while isinstance(value, functools.partial):
        value = value.func
    if inspect.isgeneratorfunction(value):
        return True
    return not isinstance(value, type) and callable(value) and inspect.isgeneratorfunction(type(value).__call__)


def restartable(callback: object) -> bool:
    """Whether it can be iterated from its beginning again, and does not continue where an earlier iteration stopped."""
    if is_generator_function(callback):
        return True
    if hasattr(type(callback), "__next__"):
        return False
    return is_iterable(callback) or callable(callback)
