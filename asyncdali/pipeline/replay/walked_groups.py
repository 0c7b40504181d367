"""One regrouping on a walk: it forms the batches of all steps on the way, because each depends on those before."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from asyncdali_workers.interrupts import raised_by_signal

from ...regrouping.contract import Cursor, EndOfEpoch, Rows
from ...regrouping.mix import Mixing
from ...regrouping.origins import RegroupedOrigins
from ...regrouping.part_streams import PartStream
from ...regrouping.puller import RegroupPosition
from ...regrouping.regrouping import Regrouping
from .planned_parts import PlannedPart

_WORTH = 8
"""Fewer batches of a mix are formed one by one."""


@dataclass
class WalkedGroup:
    """A regrouping, at the batch that the walk has come to.

    Attributes:
        name: of the regrouping.
        regrouper, state: its rule, and the state of the rule before the batch.
        parts: at the batch.
        size: most samples of a batch.
    """

    name: str
    regrouper: Any
    parts: Sequence[PartStream]
    size: int
    state: Any
    _formed: tuple[list[Rows], Any, list[Cursor]] | None = None
    _ended: tuple[Any, list[Cursor]] | None = None

    @classmethod
    def begin(
        cls, group: Regrouping, regrouper: Any, parts: Sequence[PartStream], size: int, position: RegroupPosition | None
    ) -> WalkedGroup:
        """At a position of the regrouping, where the sessions of its parts are; None: at the beginning."""
        rule = copy.copy(regrouper)
        for part, cursor in zip(parts, () if position is None else position.cursors):
            part.start(cursor.place, cursor.told, cursor.epoch, cursor.label)
        return cls(group.name, rule, parts, size, rule.start if position is None else position.state)

    def form(self) -> RegroupedOrigins:
        """The raw samples of the batch. EndOfEpoch: the epoch has no more batches."""
        while self._formed is None:
            readings = [part.reading() for part in self.parts]
            try:
                pieces, state = self.regrouper.form(readings, self.state, self.size)
            except EndOfEpoch as end:
                self._ended = end.state, [reading.cursor for reading in readings]
                raise
            except Exception as error:
                known = [part.cursor.told for part in self.parts]
                if raised_by_signal(error) or [part.tell_error().told for part in self.parts] == known:
                    raise
                continue  # a raw iteration has failed: the run raised its error, and went on behind it
            self._formed = pieces, state, [reading.cursor for reading in readings]
        return RegroupedOrigins(self.parts, self._formed[0])

    def jump(self, most: int) -> int:
        """Go on by at most so many batches at once, and return their number: that of a mix before an epoch of a part ends."""
        rule = self.regrouper
        if not isinstance(rule, Mixing) or not all(isinstance(part, PlannedPart) for part in self.parts):
            return 0
        most = min(most, rule.steady(self.state))
        if most < _WORTH:
            return 0
        left = [part.left(most * self.size) for part in self.parts]  # type: ignore[attr-defined]  # PlannedPart
        low, high = 0, most
        while low < high:
            middle = (low + high + 1) // 2
            fits = (rule.taken(self.state, middle, self.size) <= left).all()
            low, high = (middle, high) if fits else (low, middle - 1)
        if low:
            for part, count in zip(self.parts, rule.taken(self.state, low, self.size).tolist(), strict=True):
                part.skip(count)  # type: ignore[attr-defined]  # PlannedPart
            self.state, self._formed = rule.behind(self.state, low, self.size), None
        return low

    def advance(self) -> None:
        """Go to the next batch."""
        assert self._formed is not None
        _, self.state, cursors = self._formed
        self._formed = None
        for part, cursor in zip(self.parts, cursors, strict=True):
            part.commit(cursor)

    def endless(self) -> bool:
        """Whether it never ends an epoch."""
        if isinstance(self.regrouper, Mixing):
            return self.regrouper.endless
        return all(part.endless for part in self.parts)

    def next_epoch(self) -> None:
        """The epoch has ended, here or in another regrouping, whose end drops the batch that was formed here."""
        if self._ended is None and self._formed is None:
            with contextlib.suppress(EndOfEpoch):
                self.form()
        if self._ended is None:
            self.advance()
            return
        (self.state, cursors), self._ended = self._ended, None
        for part, cursor in zip(self.parts, cursors, strict=True):
            part.commit(cursor)

    def place(self) -> tuple[Any, ...]:
        """Where it is, for comparisons."""
        at = [(part.cursor.mark.place.iteration, *part.cursor[1:5]) for part in self.parts]
        return (self.regrouper.save(self.state), at)
