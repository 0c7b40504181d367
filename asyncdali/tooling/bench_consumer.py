"""Training steps beside which a pipeline is measured: a simulated one, or a function of the user."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from .program import ProgramError

_WARM_UP = 3
"""Calls of a user's step before it is timed: frameworks compile in the first ones."""
_PARTS = 5
"""A user's step is timed in this many parts, and the median counts: the pipeline fills its queue during the first one."""


class Consumer(Protocol):
    """A training step.

    Attributes:
        name: what reports call it.
        alone: seconds of a step that gets the same batch again and again.
        simulated: whether it holds the interpreter all the time, as :class:`TrainingStep` does.
    """

    name: str
    alone: float
    simulated: bool

    def calibrate(self, outputs: Sequence[object], rounds: int) -> None:
        """Measure `alone`, while the pipeline rests."""

    def run(self, outputs: Sequence[Any]) -> float:
        """Do one step and return the seconds of the call."""

    def finish(self) -> None:
        """Wait for work that steps have queued on a device."""


def _spin(rounds: int) -> int:
    total = 0
    for k in range(rounds):
        total += k & 3
    return total


class TrainingStep:
    """A simulated training step: `milliseconds` of pure Python. It is calibrated while nothing else runs in this process."""

    simulated = True

    def __init__(self, milliseconds: float):
        self.name = f"of {milliseconds:g} ms"
        self._milliseconds = milliseconds
        self._rounds = 20_000
        seconds = min(self.run() for _ in range(5))
        self._rounds = max(1, round(self._rounds * milliseconds / 1e3 / seconds))
        self.alone = statistics.median(self.run() for _ in range(5))

    def calibrate(self, outputs: Sequence[object], rounds: int) -> None:
        """Does nothing, because the step was calibrated before the pipeline was built."""

    def run(self, outputs: Sequence[Any] = ()) -> float:
        start = time.perf_counter()
        _spin(self._rounds)
        return time.perf_counter() - start

    def finish(self) -> None:
        """Nothing: no work is queued."""


class UserStep:
    """A training step of the user's: `function` is called with the outputs of each batch.

    Steps usually queue work on a device, so the measurement waits for the last result. It calls the method that the result has:
    ``synchronize()`` (events and streams of CUDA), ``block_until_ready()`` (arrays of JAX) or ``item()`` (a loss of torch).
    """

    simulated = False

    def __init__(self, name: str, function: Callable[..., object]):
        self.name = name
        self.alone = 0.0
        self._function = function
        self._last: Any = None

    def calibrate(self, outputs: Sequence[object], rounds: int) -> None:
        for _ in range(_WARM_UP):
            self.run(outputs)
        self.finish()
        self.alone = statistics.median(self._part(outputs, -(-rounds // _PARTS)) for _ in range(_PARTS))

    def _part(self, outputs: Sequence[object], rounds: int) -> float:
        start = time.perf_counter()
        for _ in range(rounds):
            self.run(outputs)
        self.finish()
        return (time.perf_counter() - start) / rounds

    def run(self, outputs: Sequence[Any]) -> float:
        start = time.perf_counter()
        try:
            self._last = self._function(*outputs)
        except Exception as error:
            raise ProgramError(f"the training step {self.name} failed: {type(error).__name__}: {error}") from error
        return time.perf_counter() - start

    def finish(self) -> None:
        last, self._last = self._last, None
        for wait in ("synchronize", "block_until_ready", "item"):
            if hasattr(last, wait):
                getattr(last, wait)()
                return
