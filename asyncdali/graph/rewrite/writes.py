"""Assignments to items and attributes in a branch: undone when the branch ends, merged when both have ended.

What a branch writes must not be seen by the other one. Objects that were made in the branch itself are left alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..conditionals import frozen


class _Missing:
    def __repr__(self) -> str:
        return "<missing>"


MISSING: Any = _Missing()
"""The value of a variable, item or attribute that does not exist."""

_PLACE_ERRORS = (KeyError, IndexError, AttributeError, TypeError, ValueError)


class Place:
    """An item or attribute of an object."""

    __slots__ = ("attribute", "key", "target")

    def __init__(self, target: Any, key: Any, attribute: bool):
        self.target = target
        self.key = key
        self.attribute = attribute

    def identity(self) -> Any:
        """Equal for the same place."""
        key = self.key
        try:
            hash(key)
        except TypeError:
            key = repr(key)
        return id(self.target), key, self.attribute

    def read(self) -> Any:
        try:
            if isinstance(self.target, dict) and not self.attribute:
                return self.target.get(self.key, MISSING)  # a defaultdict would make it
            return getattr(self.target, self.key) if self.attribute else self.target[self.key]
        except _PLACE_ERRORS:
            return MISSING

    def write(self, value: Any) -> None:
        """Put `value` there; MISSING removes."""
        if value is MISSING:
            if self.read() is not MISSING:
                delattr(self.target, self.key) if self.attribute else self.target.__delitem__(self.key)
        elif self.attribute:
            setattr(self.target, self.key, value)
        else:
            self.target[self.key] = value

    def describe(self) -> str:
        """As the user would write it, as far as it is known."""
        name = type(self.target).__name__
        return f"{name}.{self.key}" if self.attribute else f"{name}[{self.key!r}]"


class Log:
    """Places written since the log was begun, with what was there before; `born`: objects that did not exist then.

    `count` counts what was noted; `last`: the number of the last note about a place.
    """

    def __init__(self) -> None:
        self.places: dict[Any, tuple[Place, Any]] = {}
        self.born: dict[int, Any] = {}
        self.count = 0
        self.last: dict[Any, int] = {}

    def note(self, place: Place) -> None:
        """`place` is about to be written."""
        if id(place.target) in self.born:
            return
        key = place.identity()
        self.last[key] = self.count
        self.count += 1
        if key not in self.places:
            before = place.read()
            self.places[key] = (place, before.copy() if isinstance(before, np.ndarray) else before)  # an item of an array is a view

    def take(self, inner: Log) -> None:
        """What was noted in `inner`, which is part of the same statements."""
        for key, noted in inner.places.items():
            self.places.setdefault(key, noted)
        self.born.update(inner.born)

    def now(self) -> dict[Any, tuple[Place, Any]]:
        """What is at the noted places."""
        return {key: (place, frozen(place.read())) for key, (place, _) in self.places.items()}

    def undo(self) -> None:
        """Put back what was there."""
        for place, before in reversed(self.places.values()):
            place.write(before)
