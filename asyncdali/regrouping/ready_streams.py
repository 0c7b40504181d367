"""Raw iterations of a part in the order in which they are finished, within a window.

A raw iteration has its number, its draws and its samples as in any other order. The session gives those that are finished; the others have
an empty place in the list of raw iterations until they come. The cursor is at the oldest raw iteration that was not delivered. Which ones
behind it were delivered is in the state of the rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from asyncdali_workers.interrupts import uninterrupted

from ..errors import OperatorError, OperatorValueError, refused
from .contract import Rows
from .part_streams import MOST_EMPTY, Came, PartReading, PartStream, Raw

if TYPE_CHECKING:
    from ..runtime.order.delivery import Mark
    from ..runtime.order.record import Record
    from ..runtime.session import Session


class Delivered(NamedTuple):
    """A raw iteration that makes the next batch.

    Attributes:
        rows: its samples.
        number: its number, counted in this process.
        ahead: the raw iterations behind the cursor that were delivered, counted from the cursor. The cursor is the reading's.
        told: whether errors of raw iterations right before the cursor were raised since the last batch.
    """

    rows: Rows
    number: int
    ahead: tuple[int, ...]
    told: bool


class ReadyStream(PartStream):
    """A part whose raw iterations may overtake each other.

    Args:
        window: number of batches that a batch may be late.
    """

    def __init__(self, number: int, session: Session, fill: Callable[[Session], None], name: str, window: int):
        super().__init__(number, session, fill, False, name)
        self.window = window
        self._numbers: dict[int, int] = {}  # numbers of raw iterations in flight, by the index of the record
        self._expected = -1  # index of the newest record that has a number
        self._newest = -1  # number of the newest raw iteration that has come
        self._first_needed = 0

    # --- raw iterations

    def known(self, number: int) -> Raw | None:
        """Raw iteration `number`, if it has come."""
        place = number - self._raws[0].number if self._raws else -1
        raw = self._raws[place] if 0 <= place < len(self._raws) else None
        return raw if raw is None or raw.came else None

    def raw(self, number: int) -> Raw:
        while (raw := self.known(number)) is None:
            self.wait(number)
        return raw

    def wait(self, first: int) -> None:
        """Wait until one more raw iteration has come. `first`: the oldest one that was not delivered."""
        self._first_needed = first
        self._settle()
        self._more()

    def passes(self, raw: Raw) -> bool:
        """Whether the error of a failed raw iteration, the oldest one, was raised already."""
        with uninterrupted():
            if not raw.told and self._told:  # before the checkpoint
                raw.told, self._told = True, self._told - 1
        return raw.told

    def release(self, numbers: Sequence[int]) -> None:
        """Batches were made of these raw iterations and used: their memory is free again."""
        for number in numbers:
            raw = self.known(number)
            if raw is not None:
                raw.batches = []

    def unlike(self) -> OperatorError:
        """The error of an order that cannot be repeated."""
        return refused(
            OperatorValueError, self._name, "replay",
            "the order does not fit this pipeline. It must have the data, the batch size, the seed and at least the `window` of the run "
            "that returned the order.",
        )  # fmt: skip

    def _take(self, session: Session) -> None:
        session.producer.keep(self._iterations_ahead(session))
        self._fill(session)
        self._expect(session)
        session.delivery.hand_over(None, self._keep, overtaking=True)

    def _iterations_ahead(self, session: Session) -> int:
        """Number of iterations in flight beside the awaited one: as many as the queue holds, and one more for each that was overtaken.

        None is made that is so far behind the oldest one that it could not be delivered when the queue moves on.
        """
        in_flight = [self._numbers.get(record.index, self._newest + 1) for record in list(session.in_flight)]
        overtaken = sum(number < self._newest for number in in_flight)
        free = self._first_needed + self.window + session.depth - self._next_number()
        return max(0, min(session.depth - 1 + overtaken, len(in_flight) + free - 1))

    def _expect(self, session: Session) -> None:
        """Give numbers to the iterations that were queued."""
        with uninterrupted():
            for record in list(session.in_flight):
                if record.index > self._expected:
                    raw = Raw(self._next_number(), session.began, 0)
                    raw.came = False
                    self._numbers[record.index] = raw.number
                    self._raws.append(raw)
                    self._expected = record.index

    def _keep(self, record: Record, result: object) -> None:
        self._keep_as(self._numbers[record.index], self.session.delivery.mark_before(record), record, result)

    def _failed(self, number: int, mark: Mark, error: BaseException, after: int, record: Record | None) -> Came:
        raw = Raw(number, mark, after)
        raw.error = error
        return Came(raw, record, self._told, self._ends)

    def _add(self, came: Came) -> None:
        record, raw = came.record, came.raw
        if record is None:
            super()._add(came)
        else:
            self._raws[raw.number - self._raws[0].number] = raw
            self._numbers.pop(record.index, None)
        self._newest = max(self._newest, raw.number)

    def commit(self, cursor: Any) -> None:
        self._settle()
        self.cursor = cursor
        self._forget(cursor.number)

    def reading(self) -> ReadyReading:
        return ReadyReading(self)


class ReadyReading(PartReading):
    """Reads a part in the order in which raw iterations are finished."""

    _part: ReadyStream

    def deliver(self, ahead: Sequence[int], wanted: int | None, tells: bool) -> Delivered | None:
        """The raw iteration that makes the next batch: the oldest that is ready. None: the epoch has no more.

        Args:
            ahead: the raw iterations behind the cursor that were delivered, counted from the cursor.
            wanted: the number of the raw iteration to be delivered. None: any that is ready.
            tells: with `wanted`, whether errors before are raised first.
        """
        part, told, empty = self._part, False, 0
        done = {self._number + k for k in ahead}
        part.release(sorted(done))
        while True:
            first = self._number
            if self._passed(done):
                continue
            raw = None if first in done else part.known(first)
            if raw is not None and raw.error is not None and (wanted is None or tells or raw.told):
                if not part.passes(raw):
                    raise raw.error
                told = True
                self._next()
                continue
            if raw is not None and raw.error is None and not self._rows_of(raw):
                if raw.after > self._label:
                    return None
                self._next()
                empty += 1
                if empty > MOST_EMPTY and part.endless:
                    raise part.never()
                continue
            number = self._ready(first, done, wanted)
            if number is not None:
                return self._delivered(number, done, told)
            if wanted is not None:
                self._check(wanted, first, done)
            part.wait(first)

    def _ready(self, first: int, done: set[int], wanted: int | None) -> int | None:
        """The number of a raw iteration that may be delivered now."""
        oldest = _oldest(first, done)
        numbers = range(oldest, oldest + self._part.window + 1) if wanted is None else (wanted,)
        return next((number for number in numbers if number not in done and self._may_come(number, number == first)), None)

    def _check(self, wanted: int, first: int, done: set[int]) -> None:
        """Raise what comes before the raw iteration `wanted`, which cannot be delivered now: an error before the end of an epoch.

        OperatorValueError if it can never be the next one.
        """
        part, raw = self._part, self._part.known(first)
        if wanted < first or wanted in done:
            raise part.unlike()
        beyond = wanted > _oldest(first, done) + part.window
        if raw is None or first in done or not (beyond or all(part.known(number) is not None for number in range(first, wanted + 1))):
            return
        raise part.unlike() if raw.error is None else raw.error

    def _may_come(self, number: int, oldest: bool) -> bool:
        raw = self._part.known(number)
        if raw is None or raw.error is not None:
            return False
        rows = self._rows_of(raw)
        # The end of an epoch comes behind all others of the epoch.
        return bool(rows) and (oldest or (len(rows) == len(raw.places) and raw.after == self._label))

    def _rows_of(self, raw: Raw) -> range:
        """The samples of a raw iteration that belong to the epoch and were not delivered."""
        place = self._place if raw.number == self._number else 0
        return range(int(np.searchsorted(raw.places, place)), int(np.searchsorted(raw.labels, self._label, "right")))

    def _delivered(self, number: int, done: set[int], told: bool) -> Delivered:
        raw = self._part.raw(number)
        found = self._rows_of(raw)
        rows = Rows(self._part.number, raw, np.arange(found.start, found.stop))
        whole = found.stop == len(raw.places) and raw.after == self._label
        if number != self._number:
            done.add(number)
        elif whole:
            self._next()
            while self._passed(done):
                pass
        else:
            self._place = int(raw.places[found.stop - 1]) + 1
        return Delivered(rows, number, tuple(sorted(item - self._number for item in done)), told)

    def _passed(self, done: set[int]) -> bool:
        """Go behind the oldest raw iteration, if it was delivered. After a restore it may be in flight again, and is then waited for: the
        position behind it is not known."""
        if self._number not in done or self._part.known(self._number) is None:
            return False
        done.remove(self._number)
        self._next()
        return True

    def _next(self) -> None:
        self._number, self._place = self._number + 1, 0


def _oldest(first: int, done: set[int]) -> int:
    """The oldest raw iteration that was not delivered. The cursor may be before it, where one was delivered and is made again."""
    while first in done:
        first += 1
    return first
