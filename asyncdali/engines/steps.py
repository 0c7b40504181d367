"""Positions after a base and a number of equal iterations. They are computed only when they are needed.

A request for an iteration names a base and the number of iterations since the base. The engine computes the positions from both. The
training process computes positions for a checkpoint only. From time to time an engine reports its positions, which become a new base.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..runtime.segments import BuiltOperator

RENEWED = 128
"""Iterations from one base to the next. A checkpoint advances positions by about this number of iterations at most."""


class Base:
    """Positions before an iteration. From this iteration on, every iteration has `samples` samples."""

    __slots__ = ("_known", "_operators", "number", "samples")

    def __init__(self, number: int, operators: dict[str, BuiltOperator], positions: Mapping[str, Any], samples: int):
        self.number = number
        self.samples = samples
        self._operators = operators
        self._known: list[tuple[int, Mapping[str, Any]]] = [(0, positions)] * 2  # (steps, positions): at the base, and as computed last

    def at(self, steps: int) -> Mapping[str, Any]:
        """The positions before the iteration that is `steps` iterations after the base, by operator. May be called from any thread."""
        start, last = self._known
        begin, positions = last if last[0] <= steps else start
        for _ in range(begin, steps):
            positions = {name: built.after(positions[name], self.samples) for name, built in self._operators.items()}
        self._known = [start, (steps, positions)]
        return positions

    def data(self, steps: int = 0) -> dict[str, Any]:
        """The positions as JSON data."""
        positions = self.at(steps)
        return {name: built.save(positions[name]) for name, built in self._operators.items()}


def loaded(number: int, operators: dict[str, BuiltOperator], data: Mapping[str, Any], samples: int) -> Base:
    """A base at positions that :meth:`Base.data` returned."""
    return Base(number, operators, {name: built.load(data[name]) for name, built in operators.items()}, samples)


class Behind(Mapping[str, Any]):
    """The positions behind a base, by operator, computed at first use."""

    __slots__ = ("base", "steps")

    def __init__(self, base: Base, steps: int):
        self.base, self.steps = base, steps

    def __getitem__(self, name: str) -> Any:
        return self.base.at(self.steps)[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.base._operators)

    def __len__(self) -> int:
        return len(self.base._operators)
