"""Positions of sources that have a state: the newest snapshot, and how many batches to discard after loading it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from .group import Group
from .state import decode_state, encode_state


class Snapshots:
    """The position of one source with ``state_dict()`` and ``load_state_dict()``.

    A snapshot is taken right after a pull, every `snapshot_every` pulls. `position` is None at the start, else
    (snapshot as JSON data or None, pulls since then, whether the source's end was met after them); it never changes in place, so records
    can keep it. `ahead` is the position after what was pulled last and is not used yet.
    """

    def __init__(self, group: Group, resume: Callable[[Any, int, bool], None]):
        self.name = group.name
        self.position: tuple[Any, int, bool] | None = None
        self._every = group.snapshot_every
        self._source = group.description.source
        self._resume = resume
        self.ahead: tuple[Any, int, bool] | None = None
        self._before: tuple[Any, int, bool] | None = None  # `ahead` before what was pulled last
        self._pulls = 0
        if group.first_state is None and not group.parallel:  # in workers the source itself stays what it was
            with contextlib.suppress(TypeError):  # will be raised where it matters
                group.first_state = snapshot(self._source, self.name)

    def due(self) -> Any:
        """To be called after each pull: the state if it is time for a snapshot, else None. TypeError if it cannot be saved."""
        self._pulls += 1
        return snapshot(self._source, self.name) if self._pulls % self._every == 0 else None

    def pulled(self, state: Any) -> None:
        """A batch was got; `state` is the snapshot that came with it, if any. May be repeated for it."""
        before, discard, _ = self._before or (None, 0, False)
        self.ahead = (before, discard + 1, False) if state is None else (state, 0, False)

    def begin(self) -> None:
        """The source was started again: its state now is the position."""
        self.ahead = self._before = self.position = (snapshot(self._source, self.name), 0, False)
        self._pulls = 0

    def met_end(self) -> None:
        """As :meth:`begin`, where the state is out of reach: the position is behind the end that was met."""
        state, discard, _ = self.position or (None, 0, False)
        self.ahead = self._before = self.position = (state, discard, True)

    def advance(self) -> None:
        """What was pulled is used."""
        self.position = self._before = self.ahead

    def drop(self) -> None:
        """What was pulled is not used, but the source has given it."""
        self._before = self.ahead

    def save(self, position: tuple[Any, int, bool] | None) -> Any:
        """A position as JSON data."""
        return None if position is None else {"state": position[0], "discard": position[1], "ended": position[2]}

    def load(self, data: Any) -> Any:
        """Bring the source to the position saved as `data`; ValueError if it is not one."""
        position = checked_position(data)
        if position is not None:
            self._resume(*position)
            self._pulls = position[1]
        self.ahead = self._before = self.position = position
        return position


def snapshot(source: Any, name: str) -> Any:
    """The state of a source as JSON data; TypeError names source and value."""
    try:
        return encode_state(source.state_dict())
    except TypeError as error:
        raise TypeError(f"the state of the source of {name!r} cannot be saved: {error}") from error


def load_snapshot(source: Any, state: Any) -> None:
    """Give a source the state of a snapshot."""
    source.load_state_dict(decode_state(state))


def checked_position(data: Any) -> tuple[Any, int, bool] | None:
    """The saved position of a source; ValueError if it is not one."""
    if data is None:
        return None
    if not isinstance(data, dict) or type(data.get("discard")) is not int or data["discard"] < 0 or "state" not in data:
        raise ValueError(f"{data!r} is not the position of a source; expected its state and the number of batches to discard")
    return data["state"], data["discard"], bool(data.get("ended"))
