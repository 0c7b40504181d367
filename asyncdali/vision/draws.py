"""Where random numbers come from: torch's default generator, or the generator of the Compose that is running."""

from __future__ import annotations

import contextlib
from typing import Any

import torch

from ..system.entered import Entered, Leave

_drawing = Entered()


def generator() -> torch.Generator | None:
    """The generator of a draw; None: torch's default one."""
    entered = _drawing.innermost()
    return None if entered is None else entered.source


class _Drawing:
    """While it is entered, draws use a generator."""

    def __init__(self, source: torch.Generator):
        self.source = source

    def __enter__(self) -> None:
        _drawing.enter(self)

    __exit__ = Leave(_drawing)


def drawing_from(source: torch.Generator | None) -> contextlib.AbstractContextManager[None]:
    """Draw from a generator; None changes nothing."""
    return contextlib.nullcontext() if source is None else _Drawing(source)


def uniform(low: float, high: float) -> float:
    """A number between two."""
    return float(torch.empty(1).uniform_(low, high, generator=generator()))


def chance(p: float) -> bool:
    """True with probability `p`."""
    return bool(torch.rand(1, generator=generator()) < p)


def integer(low: int, high: int) -> int:
    """An integer from `low` to `high - 1`."""
    return int(torch.randint(low, high, (1,), generator=generator()))


def order(count: int) -> list[int]:
    """The numbers from 0 to `count - 1` in random order."""
    made: list[int] = torch.randperm(count, generator=generator()).tolist()
    return made


class SeededStream:
    """The generator of one seed. It is copied and pickled with its state.

    In a worker process of a torch DataLoader the seed is mixed with the worker's own, which differs between workers and epochs: all workers
    have the same copy of the object.
    """

    def __init__(self, seed: int):
        self.seed = int(seed)
        self._generator: torch.Generator | None = None
        self._worker: Any = None

    def generator(self) -> torch.Generator:
        """The generator in this process."""
        info = torch.utils.data.get_worker_info()
        worker = None if info is None else info.seed
        if self._generator is None or worker != self._worker:
            self._generator = torch.Generator()
            mixed = self.seed if worker is None else (self.seed * 0x9E3779B97F4A7C15 + worker) % 2**63
            self._generator.manual_seed(mixed % 2**63)
            self._worker = worker
        return self._generator

    def __getstate__(self) -> dict[str, Any]:
        state = None if self._generator is None else self._generator.get_state().numpy().tobytes()
        return {"seed": self.seed, "worker": self._worker, "state": state}

    def __setstate__(self, values: dict[str, Any]) -> None:
        self.seed, self._worker, self._generator = values["seed"], values["worker"], None
        if values["state"] is not None:
            self._generator = torch.Generator()
            self._generator.set_state(torch.frombuffer(bytearray(values["state"]), dtype=torch.uint8))
