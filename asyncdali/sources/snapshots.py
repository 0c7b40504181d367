"""Positions of sources with a state: the newest snapshot, and the requests since then.

The problem. A checkpoint describes the position of the consumer. Sources are ahead of the consumer, because iterations are in flight. Where
one source ends the epoch, the others were asked for a batch that no caller gets. A restored run must continue exactly as the saved run.

What does not work:

- A snapshot after every batch: ``state_dict()`` may be slow, and the state may be large.
- The number of batches alone: errors and ends change the state of a source, too. An end cannot be skipped, because only the source knows
  what its end does: a generator stays ended, the iterator of DALI's documentation rewinds itself, ``cycle="raise"`` makes a new iterator.
- One position per source: what the source has made, what the pipeline has used, and what the consumer has seen are three things.

The solution. A :class:`Position` is a snapshot and the requests since then, as runs of *batch*, *error* and *end*. A restore loads the
snapshot and repeats the requests. After an end or an error, the next batch is followed by a snapshot. :class:`Snapshots` keeps three
positions: `ahead` behind the batch that is held for the next iteration, `before` behind everything that is used or dropped, and `position`,
what the consumer knows. `position` becomes `before` when the consumer receives an error, and at the end of the epoch. So a batch that was
requested and dropped counts as soon as the consumer can see the end, with or without ``reset()``. An error that the consumer has not seen
is met again. tests/unit/runtime/test_histories.py compares thousands of random programs with their restored selves.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, NamedTuple

from asyncdali_workers.exceptions import text_of
from asyncdali_workers.worker.states import BATCH, END, ERROR, OUTCOMES, restore

from ..errors import OperatorTypeError, refused
from .group import Group
from .state import decode_state, encode_state

LIMIT = 1000
"""Most consecutive errors or ends that a position counts. A source that failed more often has failed for good."""


class Position(NamedTuple):
    """The position of a source. To reach it, load `state` into the source and repeat the requests `asks`.

    Attributes:
        state: a snapshot as JSON data; None: the initial state of the source.
        asks: runs of an outcome ("batch", "error" or "end") with their lengths.

    An end is repeated and not skipped, because only the source knows what its end does: a generator stays ended, another iterator rewinds
    itself.
    """

    state: Any = None
    asks: tuple[tuple[str, int], ...] = ()

    def after(self, outcome: str) -> Position:
        """The position after one more request."""
        *before, last = self.asks or (("", 0),)
        if last[0] != outcome:
            return self if len(self.asks) >= LIMIT else Position(self.state, (*self.asks, (outcome, 1)))
        if outcome != BATCH and last[1] >= LIMIT:
            return self
        return Position(self.state, (*before, (outcome, last[1] + 1)))

    @property
    def batches(self) -> int:
        """Number of batches since the snapshot."""
        return sum(count for outcome, count in self.asks if outcome == BATCH)

    @property
    def interrupted(self) -> bool:
        """Whether an end or an error came after the snapshot."""
        return any(outcome != BATCH for outcome, _ in self.asks)


START = Position()


class Snapshots:
    """The position of one source with ``state_dict()`` and ``load_state_dict()``.

    A snapshot is taken right after a pull: when `snapshot_every` batches came since the last snapshot, and after the first batch that
    follows an end or an error.

    Attributes:
        position: what the consumer knows: batches in queued iterations, and errors and ends that were raised.
        before: the position after all batches that were used or dropped, including those that the consumer does not know yet.
        ahead: the position after the last pull. Its batch may be held for the next iteration.
    """

    def __init__(self, group: Group, resume: Callable[[Position], None]):
        self.name = group.name
        self.position = self.before = self.ahead = START
        self._group = group
        self._every = group.snapshot_every
        self._source = group.description.source
        self._resume = resume
        self._since, self._interrupted = 0, False  # batches since the last snapshot; whether an end or an error came since then
        if group.first_state is None and not group.parallel:  # parallel sources keep their initial state in this process
            with contextlib.suppress(TypeError):  # `due` raises the same error
                group.first_state = snapshot(self._source, self.name)

    def due(self) -> object:
        """Called after each batch of the source, possibly before :meth:`pulled`.

        Returns the state if a snapshot is due, else None. TypeError if the state cannot be saved.
        """
        self._since += 1
        if self._since < self._every and not self._interrupted:
            return None
        self._since, self._interrupted = 0, False
        return snapshot(self._source, self.name)

    def interrupted(self) -> None:
        """Called when the source has met an end or an error."""
        self._interrupted = True

    def pulled(self, state: object) -> None:
        """A batch has arrived; `state` is the snapshot that came with it, if any. May be called again for the same batch."""
        self.ahead = self.before.after(BATCH) if state is None else Position(state)

    def ended(self) -> None:
        """The source was asked and has ended. :meth:`drop` consumes the end when the epoch ends."""
        self.interrupted()
        self.ahead = self.before.after(END)

    def failed(self) -> None:
        """The source was asked and has failed, or its data cannot be used."""
        self.interrupted()
        if self.ahead is self.before:
            self.before = self.ahead = self.before.after(ERROR)
        else:
            self.drop()

    def advance(self) -> None:
        """The pulled batch is used."""
        self.position = self.before = self.ahead

    def drop(self) -> None:
        """The pulled batch is not used, although the source has returned it."""
        self.before = self.ahead

    def settle(self) -> None:
        """The consumer knows all errors and ends so far."""
        self.position = self.before

    def save(self, position: Position) -> Any:
        """The position as JSON data."""
        return None if position == START else {"state": position.state, "asks": [list(run) for run in position.asks]}

    def load(self, data: object) -> Position:
        """Bring the source to the position saved as `data`. ValueError if `data` is no position, or if the source does not reach it."""
        position = checked_position(data, self._every)
        if position != START:
            try:
                self._resume(position)
            except Exception:
                with contextlib.suppress(Exception):  # another build starts from the same state, if the source can be brought there
                    self._group.start_over()
                raise
            self._since, self._interrupted = position.batches, position.interrupted
        self.ahead = self.before = self.position = position
        return position


def snapshot(source: Any, name: str) -> object:
    """The state of a source as JSON data. The TypeError names source and value."""
    try:
        return encode_state(source.state_dict())
    except TypeError as error:
        message = f"the state of the source of {name!r} cannot be saved: {text_of(error)}"
        raise refused(OperatorTypeError, "external_source", None, message) from error


def load_snapshot(group: Group, state: object) -> None:
    """Load a snapshot's state into a group's source and make its iterator again. ValueError if the source does not keep the state."""
    restore(group.description.source, decode_state(state), lambda: enter_again(group.callback), group.name)


def enter_again(callback: object) -> None:
    """Enter an iterable again, because its iterator belongs to another state."""
    rounds: Any = getattr(callback, "__self__", None)
    if hasattr(rounds, "enter_again"):
        rounds.enter_again()


def checked_position(data: object, every: int) -> Position:
    """The saved position of a source. ValueError if it is invalid, or has more requests than lie between two snapshots."""
    if data is None:
        return START
    if isinstance(data, dict) and "asks" not in data:
        data = _of_earlier_release(data)
    if not isinstance(data, dict) or "state" not in data or not _are_asks(data.get("asks")):
        raise ValueError(f"{data!r} is not the position of a source; expected its state and the requests since then")
    position = Position(data["state"], tuple((outcome, count) for outcome, count in data["asks"]))
    if position.batches > max(every - 1, 0):
        raise ValueError(
            f"the source was asked for {position.batches} batches since its last snapshot; with snapshot_every={every} there can be "
            f"{every - 1} at most. If it was saved with another snapshot_every, restore with snapshot_every={position.batches + 1} or more"
        )
    return position


def _are_asks(data: object) -> bool:
    return isinstance(data, list) and len(data) <= LIMIT and all(
        isinstance(run, list) and len(run) == 2 and run[0] in OUTCOMES and type(run[1]) is int and run[1] >= 1
        and (run[0] == BATCH or run[1] <= LIMIT)
        for run in data
    )  # fmt: skip


def _of_earlier_release(data: dict[str, object]) -> object:
    """Before 2.4.0 a position was the number of batches to discard, and whether an end followed."""
    discard = data.get("discard")
    if type(discard) is not int or discard < 0:
        return None
    asks = [[BATCH, discard]] * bool(discard) + [[END, 1]] * bool(data.get("ended"))
    return {"state": data.get("state"), "asks": asks}
