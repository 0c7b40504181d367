"""Regrouped batches as a source of the graph behind: positions, errors and ends as those of sources from Python."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..batch import Batch
from ..sources.ports import Port
from ..sources.pullers import Puller
from .contract import Cursor, EndOfEpoch, Regrouper
from .joining import joined
from .origins import RegroupedOrigins
from .part_streams import PartStream
from .regrouping import Regrouping


class RegroupPosition(NamedTuple):
    """The position of a regrouping: where each part is read, and the state of the regrouper."""

    cursors: tuple[Cursor, ...]
    state: Any


class RegroupPositions:
    """The position of a regrouping, as a session keeps that of a source with a state (``sources.snapshots``).

    Attributes:
        position: what the consumer knows: batches in queued iterations, and errors and ends that were raised.
        before: behind all batches that were used or dropped, including those that the consumer does not know yet.
        ahead: behind the last pull. Its batch may be held for the next iteration.
    """

    def __init__(self, name: str, regrouper: Regrouper[object], parts: Sequence[PartStream]):
        self.name = name
        self._regrouper, self._parts = regrouper, parts
        self._known = self.before = self.ahead = RegroupPosition(tuple(part.cursor for part in parts), regrouper.start)

    @property
    def position(self) -> RegroupPosition:
        return self._known

    @position.setter
    def position(self, position: RegroupPosition) -> None:
        """Begin at a position that :meth:`load` has made. The sessions of the parts are there already, or ValueError."""
        for k, (part, cursor) in enumerate(zip(self._parts, position.cursors, strict=True)):
            if not part.session.restored:
                raise ValueError(f"the position of part {k} of {self.name!r} is missing")
            part.start(*cursor[1:5])
        self._known = self.before = self.ahead = RegroupPosition(tuple(part.cursor for part in self._parts), position.state)

    def used(self) -> None:
        """The batch that was pulled last is in a queued iteration."""
        self._known = self.before = self.ahead

    def settle(self) -> None:
        """The consumer knows all errors and ends so far."""
        self._known = self.before

    def save(self, position: RegroupPosition) -> dict[str, object]:
        """The position as JSON data."""
        parts = []
        for part, cursor in zip(self._parts, position.cursors, strict=True):
            at = cursor.mark if isinstance(cursor.mark, dict) else part.session.saving.saved(cursor.mark)._asdict()
            parts.append({"at": at, "place": cursor.place, "told": cursor.told, "epoch": cursor.epoch, "label": cursor.label})
        return {"parts": parts, "state": self._regrouper.save(position.state)}

    def load(self, data: Any) -> RegroupPosition:
        """The position saved as `data`. ValueError if `data` is no position."""
        try:
            saved, state = data["parts"], data["state"]
            numbers = [[part[name] for name in ("place", "told", "epoch", "label")] for part in saved if isinstance(part["at"], dict)]
        except (KeyError, TypeError):
            raise ValueError(f"{data!r} is not the position of {self.name!r}") from None
        if len(numbers) != len(self._parts):
            raise ValueError(f"{self.name!r} had {len(numbers)} parts when it was saved, this pipeline has {len(self._parts)}")
        if not all(type(value) is int and 0 <= value < 1 << 62 for row in numbers for value in row):
            raise ValueError(f"{numbers!r} are not places in the parts of {self.name!r}")
        cursors = [Cursor(-1, row[0], row[1], row[2], row[3], part["at"]) for row, part in zip(numbers, saved, strict=True)]
        return RegroupPosition(tuple(cursors), self._regrouper.load(state))


class RegroupedPuller(Puller):
    """Asks a regrouper for batches. Every step may be repeated after an interrupt."""

    kind = "regrouped"

    def __init__(self, group: Regrouping, ports: dict[str, Port], batch_size: int, parts: Sequence[PartStream], close: Callable[[], None]):
        super().__init__(group, ports, batch_size)  # type: ignore[arg-type]  # it has what pullers read of a Group
        self.parts = parts
        self.regrouper = copy.copy(group.regrouper)  # a pipeline that is built again has no changes of weights
        self._close = close
        self._at = RegroupPositions(group.name, self.regrouper, parts)
        self._got: dict[str, Batch] | None = None

    @property
    def graphs(self) -> list[dict[str, object]]:
        return [part.session.saving.describe() for part in self.parts]

    @property
    def samples(self) -> int:
        sessions = [part.session for part in self.parts]
        own = sum(meta["epoch_size"] for session in sessions for meta in session.reader_metas().values())
        return own + sum(puller.samples for session in sessions for puller in session.producer.sources.pullers)

    def keep_snapshots(self) -> Any:
        return self._at

    @property
    def position(self) -> RegroupPosition:
        """Behind the last batch that was pulled."""
        return self._at.ahead

    def pull(self) -> dict[str, Batch]:
        if self._got is None:
            at = self._at
            readings = [part.reading() for part in self.parts]
            try:
                pieces, state = self.regrouper.form(readings, at.before.state, self.batch_size)
            except EndOfEpoch as end:
                at.ahead = RegroupPosition(tuple(reading.cursor for reading in readings), end.state)
                raise StopIteration from None
            got = {
                port.name: joined(pieces, output, self.group.name) for output, port in enumerate(self._ports) if port is not None
            }  # fmt: skip
            at.ahead = RegroupPosition(tuple(reading.cursor for reading in readings), state)
            self.origins, self._got = RegroupedOrigins(self.parts, pieces), got
        return self._got

    def _moved(self) -> None:
        """The batch that was pulled is used or dropped: the parts forget what lies before."""
        self._got = None
        for part, cursor in zip(self.parts, self._at.before.cursors, strict=True):
            part.commit(cursor)

    def advance(self, iteration: int) -> None:
        self.iteration = iteration
        self._at.used()
        self._moved()

    def drop(self) -> None:
        self._at.before = self._at.ahead
        self._moved()

    def failed(self) -> None:
        at = self._at
        if at.ahead is at.before:  # a raw iteration has failed, or no batch could be made of the samples
            cursors = tuple(part.tell_error() for part in self.parts)
            at.before = at.ahead = RegroupPosition(cursors, at.before.state)
        self.drop()

    def ended(self) -> None:
        """:meth:`pull` has kept where the next epoch begins."""

    def awaited_here(self) -> bool:
        return any(part.session.calls_here(True) for part in self.parts)

    def close(self) -> None:
        self._close()
