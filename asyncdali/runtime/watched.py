"""Which data a plan looks at: the proof that a plan may be copied (:mod:`.replays`, :mod:`.device_repeats`).

A plan is copied for an iteration whose key is equal. The key covers shapes, types, layouts, and contents that the operator declares
(``Operator.reads``, argument inputs). An operator that looks at anything else, at the names of the files for example, would get the names
of an earlier batch. So before a plan is copied, it is made once more over inputs that note each attribute which `plan` reads. `plan` is a
pure function. If it read nothing outside of the key, then its result is equal for each iteration with this key.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from ..batch import Batch
from ..operators.base import Arguments, Iteration, Operator

log = logging.getLogger("asyncdali")

_COVERED = frozenset({
    "shapes", "dtype", "layout", "contiguous", "device", "ndim", "itemsize", "sizes", "checked_sizes", "check_memory", "extents",
    "rows", "feed", "links", "addresses", "_addresses", "__len__", "__class__",
})  # fmt: skip
"""Attributes of a batch that follow from the key, and the addresses, which a copy replaces. A batch with `rows`, `feed` or `links` has no
key."""
_CONTENTS = frozenset({"values", "sample"})
"""Attributes that the key covers for the inputs whose contents are compared."""
_OF_ITERATIONS = frozenset({"batch_size", "stream", "prepared", "first", "whole", "__class__"})
"""Attributes of an iteration that the key covers, or that are equal in all iterations that may be copied (nothing is prepared)."""
_HELD = frozenset({"owner", "memory_owner"})
"""Attributes that keep memory alive. `plan` may pass them on."""


class Notes:
    """The attributes outside of the key that a plan has read, by name."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def add(self, name: str) -> None:
        if name not in self.names:
            self.names.append(name)


class _PassedOn(Sequence[str]):
    """The origins of an input's samples. `plan` may give them to an output; reading a text is noted."""

    def __init__(self, texts: Sequence[str], notes: Notes):
        self._texts, self._notes = texts, notes

    def __len__(self) -> int:
        self._notes.add("source_info")
        return len(self._texts)

    def __getitem__(self, index: Any) -> Any:
        self._notes.add("source_info")
        return self._texts[index]

    def __iter__(self) -> Iterator[str]:
        self._notes.add("source_info")
        return iter(self._texts)

    def __getattr__(self, name: str) -> Any:
        self._notes.add("source_info")
        return getattr(self._texts, name)


class _Held:
    """An object that keeps memory alive. Using it is noted."""

    def __init__(self, held: Any, notes: Notes):
        self._held, self._notes = held, notes

    def __getattr__(self, name: str) -> Any:
        self._notes.add(f"owner.{name}")
        return getattr(self._held, name)


class _WatchedBatch(Batch):
    """The same batch; reading an attribute that the key does not cover is noted. `contents`: whether the key has the contents."""

    __slots__ = ("_contents", "_notes")

    def __init__(self, batch: Batch, contents: bool, notes: Notes):
        batch.addresses  # noqa: B018  # makes the array that the table of a copy refers to
        for name in Batch.__slots__:
            setattr(self, name, getattr(batch, name))
        if batch.source_info is not None:
            self.source_info = _PassedOn(batch.source_info, notes)
        self._contents, self._notes = contents, notes

    def has_small_values(self, most: int) -> bool:
        """As in the base class. The key covers whether contents are known, and their shapes."""
        values = object.__getattribute__(self, "values")
        return values is not None and values.size <= most

    def __getattribute__(self, name: str) -> Any:
        found = object.__getattribute__(self, name)
        if name in _COVERED or name in ("_contents", "_notes", "source_info", "has_small_values"):
            return found
        if name in _HELD:
            return _Held(found, object.__getattribute__(self, "_notes"))
        if name in _CONTENTS and (found is None or object.__getattribute__(self, "_contents")):
            return found
        object.__getattribute__(self, "_notes").add(name)
        return found


class _WatchedIteration(Iteration):
    """The same iteration; reading an attribute that the key does not cover is noted."""

    def __init__(self, iteration: Iteration, covered: Collection[str], notes: Notes):
        object.__setattr__(self, "_covered", covered)
        object.__setattr__(self, "_notes", notes)
        for name in Iteration.__slots__:
            object.__setattr__(self, name, getattr(iteration, name))

    def __getattribute__(self, name: str) -> Any:
        found = object.__getattribute__(self, name)
        if name not in object.__getattribute__(self, "_covered"):
            object.__getattribute__(self, "_notes").add(f"iteration.{name}")
        return found


def read_outside_of_key(
    operator: Operator, inputs: Sequence[Batch], named: dict[str, Batch], contents: Collection[int], iteration: Iteration, count: int
) -> list[str]:  # fmt: skip
    """The data outside of the key that `plan` reads for these inputs, by name. Empty: a copy of the plan is right for each equal key.

    named: the argument inputs, which follow the inputs;  contents: numbers of the inputs whose contents the key has
    count: number of samples
    """
    notes = Notes()
    watched: list[Batch] = [_WatchedBatch(batch, k in contents, notes) for k, batch in enumerate([*inputs, *named.values()])]
    arguments = Arguments(operator.spec, dict(zip(named, watched[len(inputs) :], strict=True)), count)
    covered = _OF_ITERATIONS | {"position"} if operator.stateful else _OF_ITERATIONS
    try:
        operator.plan(watched[: len(inputs)], arguments, _WatchedIteration(iteration, covered, notes))
    except Exception as error:
        # The plan itself succeeded, so it treats a watched input differently.
        log.debug("plans of %s are not copied: %s", operator.spec.name, error)
        notes.add(f"the class of an input ({error})")
    if notes.names:
        log.debug("plans of %s are not copied, because it reads %s", operator.spec.name, ", ".join(notes.names))
    return notes.names
