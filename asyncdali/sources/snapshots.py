"""Positions of sources that have a state: the newest snapshot, and what the source was asked since."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, NamedTuple

from asyncdali_workers.states import BATCH, END, ERROR, OUTCOMES, restore

from ..errors import OperatorTypeError, refused
from .group import Group
from .state import decode_state, encode_state

LIMIT = 1000
"""Errors, or ends, in a row that a position counts; a source that has failed more often fails for good."""


class Position(NamedTuple):
    """Where a source is: give it `state`, then ask it as often as `asks` says, and it is there.

    Attributes:
        state: a snapshot as JSON data; None: the source as it was made.
        asks: runs of an outcome ("batch", "error" or "end") and how often it came.

    An end is repeated rather than stepped over, because only the source knows what its end does to it: a generator stays ended, another
    iterator rewinds itself.
    """

    state: Any = None
    asks: tuple[tuple[str, int], ...] = ()

    def after(self, outcome: str) -> Position:
        """The position after one more ask."""
        *before, last = self.asks or (("", 0),)
        if last[0] != outcome:
            return self if len(self.asks) >= LIMIT else Position(self.state, (*self.asks, (outcome, 1)))
        if outcome != BATCH and last[1] >= LIMIT:
            return self
        return Position(self.state, (*before, (outcome, last[1] + 1)))

    @property
    def batches(self) -> int:
        """Batches since the snapshot."""
        return sum(count for outcome, count in self.asks if outcome == BATCH)

    @property
    def interrupted(self) -> bool:
        """Whether an end or an error came since the snapshot."""
        return any(outcome != BATCH for outcome, _ in self.asks)


START = Position()


class Snapshots:
    """The position of one source with ``state_dict()`` and ``load_state_dict()``.

    A snapshot is taken right after a pull: when `snapshot_every` batches came since the last one, and after the first batch that follows an
    end or an error.

    Attributes:
        position: after what the consumer knows of: batches in queued iterations, errors and ends that it was told.
        before: after all that is used or dropped, whether the consumer knows of it or not.
        ahead: after what was pulled last, which may be held for the next iteration.
    """

    def __init__(self, group: Group, resume: Callable[[Position], None]):
        self.name = group.name
        self.position = self.before = self.ahead = START
        self._group = group
        self._every = group.snapshot_every
        self._source = group.description.source
        self._resume = resume
        self._since, self._interrupted = 0, False  # batches since the last snapshot; whether an end or an error came since
        if group.first_state is None and not group.parallel:  # in workers the source itself stays what it was
            with contextlib.suppress(TypeError):  # will be raised where it matters
                group.first_state = snapshot(self._source, self.name)

    def due(self) -> Any:
        """To be called after each batch that the source gave, possibly ahead of :meth:`pulled`.

        Returns the state if it is time for a snapshot, else None. TypeError if the state cannot be saved.
        """
        self._since += 1
        if self._since < self._every and not self._interrupted:
            return None
        self._since, self._interrupted = 0, False
        return snapshot(self._source, self.name)

    def interrupted(self) -> None:
        """To be called where the source has met an end or an error, likewise."""
        self._interrupted = True

    def pulled(self, state: Any) -> None:
        """A batch was got; `state` is the snapshot that came with it, if any. May be repeated for it."""
        self.ahead = self.before.after(BATCH) if state is None else Position(state)

    def ended(self) -> None:
        """The source was asked, and has ended; used up by :meth:`drop`, when the epoch ends."""
        self.interrupted()
        self.ahead = self.before.after(END)

    def failed(self) -> None:
        """The source was asked, and has failed; or what it gave cannot be used."""
        self.interrupted()
        if self.ahead is self.before:
            self.before = self.ahead = self.before.after(ERROR)
        else:
            self.drop()

    def advance(self) -> None:
        """What was pulled is used."""
        self.position = self.before = self.ahead

    def drop(self) -> None:
        """What was pulled is not used, but the source has given it."""
        self.before = self.ahead

    def settle(self) -> None:
        """The consumer was told of all errors and ends so far."""
        self.position = self.before

    def save(self, position: Position) -> Any:
        """A position as JSON data."""
        return None if position == START else {"state": position.state, "asks": [list(run) for run in position.asks]}

    def load(self, data: Any) -> Position:
        """Bring the source to the position saved as `data`; ValueError if it is not one, or if the source does not get there."""
        position = checked_position(data, self._every)
        if position != START:
            try:
                self._resume(position)
            except Exception:
                with contextlib.suppress(Exception):  # another build begins where this one did, if the source can be brought there
                    self._group.start_over()
                raise
            self._since, self._interrupted = position.batches, position.interrupted
        self.ahead = self.before = self.position = position
        return position


def snapshot(source: Any, name: str) -> Any:
    """The state of a source as JSON data; TypeError names source and value."""
    try:
        return encode_state(source.state_dict())
    except TypeError as error:
        message = f"the state of the source of {name!r} cannot be saved: {error}"
        raise refused(OperatorTypeError, "external_source", None, message) from error


def load_snapshot(group: Group, state: Any) -> None:
    """Give a group's source the state of a snapshot; its iterator is made anew. ValueError if the source does not keep that state."""
    restore(group.description.source, decode_state(state), lambda: enter_again(group.callback), group.name)


def enter_again(callback: Any) -> None:
    """An iterable is entered again: its iterator belongs to another state."""
    rounds: Any = getattr(callback, "__self__", None)
    if hasattr(rounds, "enter_again"):
        rounds.enter_again()


def checked_position(data: Any, every: int) -> Position:
    """The saved position of a source; ValueError if it is not one, or if it asks for more batches than lie between two snapshots."""
    if data is None:
        return START
    if isinstance(data, dict) and "asks" not in data:
        data = _of_earlier_release(data)
    if not isinstance(data, dict) or "state" not in data or not _are_asks(data.get("asks")):
        raise ValueError(f"{data!r} is not the position of a source; expected its state and what it was asked since")
    position = Position(data["state"], tuple((outcome, count) for outcome, count in data["asks"]))
    if position.batches > max(every - 1, 0):
        raise ValueError(
            f"the source was asked for {position.batches} batches since its last snapshot; with snapshot_every={every} there can be "
            f"{every - 1} at most. If it was saved with another snapshot_every, restore with snapshot_every={position.batches + 1} or more"
        )
    return position


def _are_asks(data: Any) -> bool:
    return isinstance(data, list) and len(data) <= LIMIT and all(
        isinstance(run, list) and len(run) == 2 and run[0] in OUTCOMES and type(run[1]) is int and run[1] >= 1
        and (run[0] == BATCH or run[1] <= LIMIT)
        for run in data
    )  # fmt: skip


def _of_earlier_release(data: dict[str, Any]) -> Any:
    """Before 2.4.0 a position had batches to discard, and whether an end followed."""
    discard = data.get("discard")
    if type(discard) is not int or discard < 0:
        return None
    asks = [[BATCH, discard]] * bool(discard) + [[END, 1]] * bool(data.get("ended"))
    return {"state": data.get("state"), "asks": asks}
