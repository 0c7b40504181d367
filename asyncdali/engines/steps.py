"""Positions a number of equal iterations behind a base. They are computed when somebody needs them.

A request for an iteration names the base and the number of iterations behind it. The engine moves the positions on; the training process
does so for a checkpoint only. From time to time an engine reports how the positions stand, and a new base begins there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..runtime.segments import BuiltOperator

RENEWED = 128
"""Iterations behind a base before the next base begins. A checkpoint moves positions on by at most about as many."""


class Base:
    """Positions before an iteration, after which every iteration has `samples` samples."""

    __slots__ = ("_known", "_operators", "number", "samples")

    def __init__(self, number: int, operators: dict[str, BuiltOperator], positions: Mapping[str, Any], samples: int):
        self.number = number
        self.samples = samples
        self._operators = operators
        self._known: list[tuple[int, Mapping[str, Any]]] = [(0, positions)] * 2  # at the base, and those computed last

    def at(self, steps: int) -> Mapping[str, Any]:
        """The positions before the iteration that is `steps` behind the base, by operator. Any thread may ask."""
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
