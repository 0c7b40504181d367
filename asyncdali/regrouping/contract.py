"""The rule that forms batches of samples, and its view of the parts.

A regrouper is a pure rule: (positions of its parts, its state) -> (the samples of the next batch, positions and state behind it). It keeps
nothing else between two calls, so a checkpoint needs nothing else, and a call that was interrupted is simply made again.

Select is the shortest example: read a batch's samples from the only part, and end the epoch where the part ends it
(:mod:`asyncdali.regrouping.select`). Three things a regrouper may do:

- Read any number of samples, from any parts, in any order of the parts. Raw iterations that were read stay in memory until a later batch
  begins behind them.
- Give the samples in another order than it has read them, and split a stretch: see :meth:`Rows.taken`.
- Read further than its batch, and begin the next batch at an earlier place: :meth:`Reading.back_to` a cursor that it has kept. A rule that
  sorts windows goes back to the window's start, and counts the batches of the window in its state. The raw iterations of the window are
  then made once, because they are still in memory.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from ..batch import Batch

State = TypeVar("State")


class Cursor(NamedTuple):
    """A place in a part, between two samples. A checkpoint has it, except for `number` and `mark`, which say the same.

    Attributes:
        number: of the raw iteration, counted in this process.
        place: number of samples of the raw iteration that lie before.
        told: failed raw iterations from here on whose errors were raised already. They are skipped.
        epoch: number of epochs of the part that lie before.
        label: the epoch that is being read, as the part's reader counts it.
        mark: the position of the part's session before the raw iteration (``session.Mark``).
    """

    number: int
    place: int
    told: int
    epoch: int
    label: int
    mark: Any


@dataclass(frozen=True)
class Rows:
    """Samples of one raw iteration of a part: `rows` are their numbers among the samples that the raw iteration offers."""

    part: int
    raw: Any
    rows: np.ndarray

    def __len__(self) -> int:
        return len(self.rows)

    def batch(self, output: int) -> Batch:
        """Output `output` of the raw iteration, of which :attr:`rows` are the samples. Its contents may be read, not changed."""
        found: Batch = self.raw.batches[output]
        return found

    def taken(self, chosen: np.ndarray) -> Rows:
        """Some of the samples, in the order of `chosen` (numbers in :attr:`rows`)."""
        return Rows(self.part, self.raw, self.rows[chosen])

    def joined(self, others: Sequence[Rows]) -> Rows:
        """These samples, and then those of `others`, which are of the same raw iteration."""
        return dataclasses.replace(self, rows=np.concatenate([self.rows, *(other.rows for other in others)])) if others else self


class Reading(Protocol):
    """A part while one batch is formed."""

    @property
    def cursor(self) -> Cursor:
        """The place behind the samples that were read."""

    def rows(self, most: int) -> Rows | None:
        """The next samples of the current epoch: at least 1, at most `most`, all from one raw iteration. None: the epoch has no more.

        Waits for raw iterations. Raises the error of one that has failed; the next call continues behind the failed one.
        """

    def next_epoch(self) -> None:
        """Go to the beginning of the next epoch. To be called after :meth:`rows` has returned None."""

    def back_to(self, cursor: Cursor) -> None:
        """Continue at a place where this part was before, in this batch or at its beginning."""


class Regrouper(Protocol[State]):
    """The rule of one kind of regrouping.

    `state` is a value of the rule's own that is never changed in place. Everything that decides the result is in the state, in the cursors,
    or fixed when the graph is defined.
    """

    @property
    def start(self) -> State:
        """The state of a fresh pipeline."""

    def form(self, parts: Sequence[Reading], state: State, size: int) -> tuple[list[Rows], State]:
        """The samples of the next batch, 1 to `size` of them in order, and the state behind it. The cursors of `parts` are kept, too.

        Raises :class:`EndOfEpoch` where the epoch ends. A batch at the end may be smaller.
        """

    def save(self, state: State) -> object:
        """The state as JSON data, of at most a few hundred bytes."""

    def load(self, data: object) -> State:
        """The state that :meth:`save` has stored. ValueError for other data."""


class EndOfEpoch(Exception):
    """The epoch of a regrouping ends here. `state`: that of the rule at the beginning of the next epoch; the cursors are kept, too."""

    def __init__(self, state: object):
        super().__init__(state)
        self.state = state
