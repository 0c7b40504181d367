"""experimental.batch_by: batches of samples of similar length, as many as a budget allows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from asyncdali_workers.interrupts import raised_by_signal

from ..errors import OperatorValueError, refused
from ..operators.base import Arg, Role, Schema, register
from .contract import Cursor, EndOfEpoch, Reading, Rows
from .costs import cost, planned
from .joining import numbers_of
from .regrouping import RegroupedInput

LARGEST_WINDOW = 1 << 20
"""Samples of a window that stay in memory."""


class BatchingState(NamedTuple):
    """The state of a batching before a batch. The cursor of the part is at the beginning of its window.

    Attributes:
        window: number of windows before it, of all epochs.
        batch: number of batches of the window before it.
        real: sum of the lengths of all samples of all batches before it.
        padded: sum of the costs of these batches, which are padded to their longest samples.
    """

    window: int
    batch: int
    real: float
    padded: float

    @property
    def padding(self) -> float:
        """The part of the cost that is padding."""
        return 1 - self.real / self.padded if self.padded else 0.0


class Batching:
    """See the module.

    Args:
        output: number of the part's output with the lengths.
        budget: most a batch may cost.
        window: samples that are sorted at a time.
        seed: of the order of batches in a window.
    """

    start = BatchingState(0, 0, 0.0, 0.0)

    def __init__(self, output: int, budget: float, window: int, seed: int, name: str):
        self._output, self._budget, self._window, self._seed, self._name = output, budget, window, seed, name
        self._last: _Window | None = None  # saves the work for the other batches of a window

    def form(self, parts: Sequence[Reading], state: BatchingState, size: int) -> tuple[list[Rows], BatchingState]:
        reading = parts[0]
        begin = reading.cursor
        window = self._window_at(reading, begin, (self._seed, state.window), size)
        if window is None:
            reading.next_epoch()
            raise EndOfEpoch(state)
        chosen = window.plan[state.batch]
        real, padded = cost(window.lengths[chosen])
        behind = BatchingState(state.window, state.batch + 1, state.real + real, state.padded + padded)
        count = len(window.plan)
        if behind.batch == count:
            self._last = None  # the window's memory is free again
            reading.back_to(window.behind)
            return _chosen(window, chosen), behind._replace(window=state.window + 1, batch=0)
        window.read_ahead(reading, self._window * behind.batch // count)
        reading.back_to(begin)
        return _chosen(window, chosen), behind

    def _window_at(self, reading: Reading, begin: Cursor, key: tuple[int, int], size: int) -> _Window | None:
        """The window that begins at a cursor. None at the end of an epoch."""
        first = reading.rows(1)
        if first is None:
            return None
        known, place = self._last, (begin.number, begin.place, begin.told, begin.label, *key, size)
        if known is not None and known.place == place and known.rows[0].raw is first.raw:
            return known
        reading.back_to(begin)
        rows = _read(reading, self._window)
        lengths = np.concatenate([self._lengths(part) for part in rows])
        made = self._last = _Window(place, rows, lengths, planned(lengths, self._budget, size, key), reading.cursor)
        return made

    def _lengths(self, rows: Rows) -> np.ndarray:
        lengths: np.ndarray = numbers_of(rows.batch(self._output), self._name, "length")[rows.rows].astype(np.float64)
        wrong = np.flatnonzero(~np.isfinite(lengths) | (lengths < 0))
        if len(wrong):
            raise refused(
                OperatorValueError, self._name, "length",
                f"`length` is {lengths[wrong[0]]} for a sample. Lengths are numbers of at least 0: tokens, seconds, pixels.",
            )  # fmt: skip
        return lengths

    # --- checkpoints

    def save(self, state: BatchingState) -> dict[str, object]:
        return state._asdict()

    def load(self, data: Any) -> BatchingState:
        try:
            state = BatchingState(**data)
        except TypeError:
            raise ValueError(f"{data!r} is not the state of a batch_by") from None
        sums = state.real, state.padded
        if not all(type(value) is int and 0 <= value < 1 << 62 for value in state[:2]):
            raise ValueError(f"{data!r} is not the state of a batch_by: its numbers are out of range")
        if not all(type(value) in (int, float) and 0 <= value < float("inf") for value in sums):
            raise ValueError(f"{data!r} is not the state of a batch_by: its sums are out of range")
        return state


def _read(reading: Reading, most: int) -> list[Rows]:
    """The next samples of the epoch, at most `most`."""
    found: list[Rows] = []
    while most and (rows := reading.rows(most)) is not None:
        found.append(rows)
        most -= len(rows)
    return found


class _Window:
    """A window: its samples, and their batches.

    Attributes:
        place: where it begins, and everything else that decides it.
        rows, lengths: its samples.
        plan: the samples of its batches.
        behind: the cursor behind it.
    """

    def __init__(self, place: tuple[int, ...], rows: list[Rows], lengths: np.ndarray, plan: list[np.ndarray], behind: Cursor):
        self.place, self.rows, self.lengths, self.plan, self.behind = place, rows, lengths, plan, behind
        self.stops = np.cumsum([len(part) for part in rows])
        self._ahead, self._read = behind, 0

    def read_ahead(self, reading: Reading, most: int) -> None:
        """Wait for the first `most` samples of the next window, so that no batch waits for a whole one."""
        reading.back_to(self._ahead)
        try:
            while self._read < most and (rows := reading.rows(most - self._read)) is not None:
                self._read += len(rows)
        except Exception as error:  # it is raised when that window is read
            if raised_by_signal(error):
                raise
        self._ahead = reading.cursor


def _chosen(window: _Window, chosen: np.ndarray) -> list[Rows]:
    """Samples of a window, by their ascending numbers in it."""
    homes = np.searchsorted(window.stops, chosen, "right")
    found = []
    for home in np.unique(homes).tolist():
        rows = window.rows[home]
        found.append(rows.taken(chosen[homes == home] - (int(window.stops[home]) - len(rows))))
    return found


@register
class BatchBy(RegroupedInput):
    schema = Schema(
        name="experimental.batch_by",
        doc="""Forms batches of samples of similar length.

        See :func:`asyncdali.fn.experimental.batch_by`, and docs/bad_data.md for what to choose when.""",
        inputs=(0, 0),
        hand_written="regrouping.calls",
        role=Role.INPUT,
        calls_python=True,
        args=(
            Arg("budget", "float", None, "Most a batch may cost: its longest sample times its number of samples.", stream=True),
            Arg("window", "int", 1024, "Samples that are sorted at a time.", stream=True),
            Arg("order_seed", "int", 0, "Seed of the order of batches in a window.", stream=True),
        ),
    )
