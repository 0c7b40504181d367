"""Raw iterations of a part, and reading them sample by sample.

The problem. A part's session makes batches of fixed size. A regrouper needs samples, the ends of epochs between two samples, and the same
samples again after an interrupt, an error or a restore.

The solution. :class:`PartStream` keeps the raw iterations from the beginning of the next batch on. :class:`PartReading` walks over them
without changing anything, and asks the part for more at the end. Only when a batch is used does the part forget what lies before its
cursor. So a batch whose forming was interrupted is formed again from the same raw iterations.

Ends of epochs. With sources (or other regroupings) in the part, an epoch ends where these end it. Otherwise the reader with the largest
shard tells the epoch of each sample by its position. Samples that only fill a batch up at a shard's end (`pad_last_batch`) are left out.
Without readers and sources the part never ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from asyncdali_workers.interrupts import raised_by_signal

from ..errors import OperatorError, OperatorValueError, PipelineClosed, refused, set_aside
from ..tensors.lists import batch_of
from .contract import Cursor, Rows
from .joining import condition_of

if TYPE_CHECKING:
    from ..batch import Batch
    from ..readers.base import ReaderOperator
    from ..runtime.order.delivery import Mark
    from ..runtime.order.moments import Moment
    from ..runtime.order.record import Record
    from ..runtime.session import Session
    from .contract import Reading

MOST_EMPTY = 100_000
"""Raw iterations in a row without a sample, in a part whose epochs do not end. The condition is then never true."""

MOST_AHEAD = 8
"""Raw iterations that are made ahead at most, for conditions that few samples pass."""


class Raw:
    """One raw iteration: the samples that it offers.

    Attributes:
        number: counted in this process.
        mark: the position of the part's session before it.
        batches: the outputs, without samples that the condition leaves out.
        places: the number of each sample in the whole iteration, int64[samples].
        labels: the epoch of each sample.
        after: the epoch behind the iteration.
        moment: the position at which the iteration was made; None if it has failed, and for the end of an epoch.
        error: why the iteration has failed. `told`: the consumer knows the error.
        came: False: it is not finished, and has only its number.
    """

    __slots__ = ("after", "batches", "came", "error", "labels", "mark", "moment", "number", "places", "told")

    def __init__(self, number: int, mark: Mark, after: int):
        self.number, self.mark, self.after = number, mark, after
        self.batches: list[Batch] = []
        self.places = self.labels = np.empty(0, np.int64)
        self.moment: Moment | None = None
        self.error: BaseException | None = None
        self.told = False
        self.came = True


class Came(NamedTuple):
    """A raw iteration that the session has given. :meth:`PartStream._settle` adds it; each step of that may be repeated.

    `record`: the iteration that the consumer of the session has; None: the end of an epoch, or a source's error. `told`, `ends`: the
    numbers of the part behind it.
    """

    raw: Raw
    record: Record | None
    told: int
    ends: int


class PartStream:
    """A part of a regrouping, from the beginning of the next batch on.

    Args:
        number: of the part in its regrouping.
        session: makes the raw iterations.
        fill: queues raw iterations, so that the session works ahead.
        condition: whether the last output of the session is the condition.
        name: of the regrouping, for errors.
    """

    def __init__(self, number: int, session: Session, fill: Callable[[Session], None], condition: bool, name: str):
        self.number, self.session = number, session
        self._fill, self._condition, self._name = fill, condition, name
        self._raws: list[Raw] = []
        self._told = 0  # failed raw iterations that come next and were raised before the checkpoint
        self._came: Came | None = None  # what the session has given last, until it is among the raw iterations
        self.reader: ReaderOperator | None = None
        """The reader that tells the epochs."""
        self._ends = 0  # ends of epochs that sources have met in this process
        self._looked = False
        self.cursor = self._first(0)

    # --- positions

    def _first(self, epoch: int) -> Cursor:
        return Cursor(0, 0, 0, epoch, 0, self.mark())

    def mark(self) -> Mark:
        """The position of the session before the next raw iteration."""
        return self.session.delivery.mark()

    def start(self, place: int, told: int, epoch: int, label: int) -> None:
        """Begin at the position of the session, with the numbers of a saved cursor."""
        self.cursor = Cursor(0, place, told, epoch, label, self.mark())
        self._told, self._ends = told, label

    def commit(self, cursor: Cursor) -> None:
        """Batches from now on begin at `cursor` or behind."""
        self._settle()
        used, self.cursor = cursor.number - self.cursor.number, cursor
        self._work_ahead(used)
        self._forget(cursor.number)

    def _forget(self, number: int) -> None:
        """Raw iterations before `number` are not needed any more."""
        behind = number - (self._raws[0].number if self._raws else number)
        del self._raws[:behind]

    def _work_ahead(self, used: int) -> None:
        """The last batch has used so many raw iterations. The next one needs as many; they are made while the consumer works."""
        if self.session.depth > 1:
            self.session.producer.keep_ahead(min(used + self.session.depth - 2, MOST_AHEAD))

    def cursor_at(self, number: int, place: int, epoch: int, label: int) -> Cursor:
        """The cursor at a raw iteration that is known, or at the next one."""
        first = self._raws[0].number if self._raws else self._next_number()
        behind = self._raws[number - first :] if number >= first else self._raws
        mark = behind[0].mark if behind and behind[0].came else self.mark()
        told = sum(raw.told for raw in behind) + self._told
        return Cursor(number, place, told, epoch, label, mark)

    def _next_number(self) -> int:
        return self._raws[-1].number + 1 if self._raws else self.cursor.number

    def tell_error(self) -> Cursor:
        """The consumer gets the error of the oldest failed iteration that it does not know. Returns the cursor that says so."""
        failed = next((raw for raw in self._raws if raw.error is not None and not raw.told), None)
        if failed is not None:
            failed.told = True
            if failed.error is not None:
                failed.error = RuntimeError("told")  # the error may refer to frames
            at = self.cursor
            self.cursor = at._replace(told=at.told + 1)
        return self.cursor

    # --- raw iterations

    def raw(self, number: int) -> Raw:
        """Raw iteration `number`, which is known or the next one. Waits for it."""
        self._settle()
        while True:
            first = self._raws[0].number if self._raws else self.cursor.number
            if number - first < len(self._raws):
                return self._raws[number - first]
            self._more()

    def _more(self) -> None:
        """Add one raw iteration, failed or not, or the end of an epoch. If this is interrupted, the next call does the rest."""
        session = self.session
        self._look()
        try:
            self._take(session)
        except StopIteration:
            self._came = Came(Raw(self._next_number(), self.mark(), self._ends + 1), None, self._told, self._ends + 1)
        except PipelineClosed:
            raise
        except Exception as error:
            if raised_by_signal(error):
                raise
            self._came = self._failed(self._next_number(), self.mark(), set_aside(error), self._ends, None)
        self._settle()

    def _take(self, session: Session) -> None:
        """Queue what is missing, and take the next raw iteration."""
        self._fill(session)
        session.delivery.hand_over(None, self._keep)

    def _settle(self) -> None:
        """Add what the session has given last. An interrupt may have come after any step."""
        came = self._came
        if came is None:
            return
        self._add(came)
        if came.record is not None:
            self.session.delivery.drop(came.record)  # the session has moved on, unless an interrupt came first
        elif came.raw.error is None:
            self.session.producer.reset()
        self._told, self._ends, self._came = came.told, came.ends, None

    def _add(self, came: Came) -> None:
        """Add a raw iteration. May be repeated."""
        if not self._raws or self._raws[-1] is not came.raw:
            self._raws.append(came.raw)

    def _look(self) -> None:
        """Find out what tells the epochs."""
        if self._looked:
            return
        session = self.session
        if not session.producer.sources.pullers:
            readers = [reader for reader in session.readers().values() if hasattr(reader, "order")]
            self.reader = max(readers, key=lambda reader: reader.order.padded_shard_size, default=None)
        self._looked = True

    @property
    def endless(self) -> bool:
        """Whether its epochs do not end."""
        return self.reader is None and not self.session.producer.sources.pullers

    def _failed(self, number: int, mark: Mark, error: BaseException, after: int, record: Record | None) -> Came:
        raw = Raw(number, mark, after)
        raw.told = self._told > 0
        raw.error = RuntimeError("told") if raw.told else error
        return Came(raw, record, self._told - raw.told, self._ends)

    def _keep(self, record: Record, result: object) -> None:
        """The session's consumer takes an iteration. Called before the session moves on."""
        self._keep_as(self._next_number(), self.mark(), record, result)

    def _keep_as(self, number: int, mark: Mark, record: Record, result: Any) -> None:
        moment = self.session.delivery.moment(record)
        labels, real, after = self._epochs(moment.positions, moment.samples)
        came: Came | None = None
        if not isinstance(result, BaseException):
            try:
                raw = self._made(Raw(number, mark, after), moment, record, [batch_of(tensors) for tensors in result], labels, real)
                came = Came(raw, record, self._told, self._ends)
            except Exception as error:
                if raised_by_signal(error):
                    raise
                result = error
        self._came = came or self._failed(number, mark, set_aside(result), after, record)

    def _epochs(self, positions: Mapping[str, Any], samples: int) -> tuple[np.ndarray, np.ndarray, int]:
        """The epoch of each sample of the whole iteration, whether the sample is more than padding, and the epoch behind."""
        if self.reader is None:
            return np.full(samples, self._ends), np.ones(samples, bool), self._ends
        order = self.reader.order
        position = positions[self.reader.spec.name]
        runs = order.runs(position, samples)
        counts = [run.samples for run in runs]
        labels = np.repeat([run.epoch for run in runs], counts)
        return labels, np.repeat([not run.padding for run in runs], counts), order.after(position, samples).epoch

    def _made(
        self, raw: Raw, moment: Moment, record: Record, batches: list[Batch], labels: np.ndarray, real: np.ndarray
    ) -> Raw:
        places = np.arange(len(labels)) if record.kept is None else record.kept  # without samples that `on_error` has dropped
        chosen = real[places]
        if self._condition:
            chosen = chosen & condition_of(batches.pop(), self._name)
        rows = np.flatnonzero(chosen)
        if len(rows) == len(chosen):
            raw.batches = batches
        elif len(rows):
            raw.batches = [batch.chosen(rows) for batch in batches]
            if 2 * len(rows) < len(chosen):  # the memory of the others is free again
                raw.batches = [self.session.delivery.lists.copied(batch) for batch in raw.batches]
        raw.places, raw.labels, raw.moment = places[rows], labels[places[rows]], moment
        return raw

    def reading(self) -> Reading:
        """Read from the beginning of the next batch on."""
        return PartReading(self)

    def never(self) -> OperatorError:
        """The error of a part that offers no sample."""
        return refused(
            OperatorValueError, self._name, "where" if self._condition else None,
            f"no sample in {MOST_EMPTY:,} raw iterations: the condition is never true, or the part has no data. Change the condition.",
        )  # fmt: skip


class PartReading:
    """Reads a part; see :class:`~asyncdali.regrouping.contract.Reading`."""

    def __init__(self, part: PartStream):
        self._part = part
        self.back_to(part.cursor)

    def back_to(self, cursor: Cursor) -> None:
        self._number, self._place, self._epoch, self._label = cursor.number, cursor.place, cursor.epoch, cursor.label

    @property
    def cursor(self) -> Cursor:
        return self._part.cursor_at(self._number, self._place, self._epoch, self._label)

    def next_epoch(self) -> None:
        self._epoch, self._label = self._epoch + 1, self._label + 1
        raw = self._part.raw(self._number)
        if raw.after == self._label and self._place > raw.places.max(initial=-1):  # a saved cursor lies behind an end that sources have met
            self._number, self._place = self._number + 1, 0

    def rows(self, most: int) -> Rows | None:
        part, empty = self._part, 0
        while True:
            raw = part.raw(self._number)
            if raw.error is not None and not raw.told:
                raise raw.error
            first = int(np.searchsorted(raw.places, self._place))
            stop = int(np.searchsorted(raw.labels, self._label, "right"))
            if first < stop:
                stop = min(stop, first + most)
                self._place = int(raw.places[stop - 1]) + 1
                if stop == len(raw.places) and raw.after == self._label:
                    self._number, self._place = self._number + 1, 0
                return Rows(part.number, raw, np.arange(first, stop))
            if raw.after > self._label:
                return None
            self._number, self._place, empty = self._number + 1, 0, empty + 1
            if empty > MOST_EMPTY and part.endless:
                raise part.never()
