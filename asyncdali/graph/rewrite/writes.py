"""Assignments to items and attributes in a branch: undone at the end of the branch, merged after both branches.

One branch must not see the writes of the other. Objects that were made in the branch itself are not tracked.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..conditionals import frozen


class _Absent:
    def __repr__(self) -> str:
        return "<missing>"


MISSING: Any = _Absent()
"""The value of a variable, item or attribute that does not exist."""

_PLACE_ERRORS = (KeyError, IndexError, AttributeError, TypeError, ValueError)


class WrittenPlace:
    """An item or attribute of an object."""

    __slots__ = ("attribute", "key", "target")

    def __init__(self, target: Any, key: Any, attribute: bool):
        self.target = target
        self.key = key
        self.attribute = attribute

    def identity(self) -> object:
        """Equal for equal places."""
        key = self.key
        try:
            hash(key)
        except TypeError:
            key = repr(key)
        return id(self.target), key, self.attribute

    def read(self) -> Any:
        try:
            if isinstance(self.target, dict) and not self.attribute:
                return self.target.get(self.key, MISSING)  # indexing a defaultdict would create the item
            return getattr(self.target, self.key) if self.attribute else self.target[self.key]
        except _PLACE_ERRORS:
            return MISSING

    def write(self, value: Any) -> None:
        """Write `value` to the place; MISSING removes the place."""
        if value is MISSING:
            if self.read() is not MISSING:
                delattr(self.target, self.key) if self.attribute else self.target.__delitem__(self.key)
        elif self.attribute:
            setattr(self.target, self.key, value)
        else:
            self.target[self.key] = value

    def describe(self) -> str:
        """The place in the user's notation, as far as it is known."""
        name = type(self.target).__name__
        return f"{name}.{self.key}" if self.attribute else f"{name}[{self.key!r}]"


class Log:
    """Places written since the start of the log, with their previous values. `born`: objects made since then.

    `count`: number of entries. `last`: number of the last entry for a place.
    """

    def __init__(self) -> None:
        self.places: dict[Any, tuple[WrittenPlace, Any]] = {}
        self.born: dict[int, Any] = {}
        self.count = 0
        self.last: dict[Any, int] = {}

    def note(self, place: WrittenPlace) -> None:
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
        """Add the entries of `inner`, which belongs to the same statements."""
        for key, noted in inner.places.items():
            self.places.setdefault(key, noted)
        self.born.update(inner.born)

    def now(self) -> dict[object, tuple[WrittenPlace, object]]:
        """The current values of the recorded places."""
        return {key: (place, frozen(place.read())) for key, (place, _) in self.places.items()}

    def undo(self) -> None:
        """Restore the previous values."""
        for place, before in reversed(self.places.values()):
            place.write(before)
