"""experimental.batch_by: batches of samples of similar length, as many as a budget allows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from asyncdali_workers.interrupts import raised_by_signal

from ..errors import OperatorValueError, refused
from ..operators.base import Arg, Role, Schema, register
from .contract import EndOfEpoch, Reading, Rows
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

    def form(self, parts: Sequence[Reading], state: BatchingState, size: int) -> tuple[list[Rows], BatchingState]:
        reading = parts[0]
        begin = reading.cursor
        window = _read(reading, self._window)
        if not window:
            reading.next_epoch()
            raise EndOfEpoch(state)
        lengths = np.concatenate([self._lengths(rows) for rows in window])
        plan = planned(lengths, self._budget, size, (self._seed, state.window))
        chosen = plan[state.batch]
        real, padded = cost(lengths[chosen])
        behind = BatchingState(state.window, state.batch + 1, state.real + real, state.padded + padded)
        if behind.batch == len(plan):
            return _chosen(window, chosen), behind._replace(window=state.window + 1, batch=0)
        _read_ahead(reading, -(-self._window * behind.batch // len(plan)))
        reading.back_to(begin)
        return _chosen(window, chosen), behind

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


def _read_ahead(reading: Reading, most: int) -> None:
    """Wait for a part of the next window, so that no batch waits for a whole one. Errors are raised when that window is read."""
    try:
        _read(reading, most)
    except Exception as error:
        if raised_by_signal(error):
            raise


def _chosen(window: Sequence[Rows], chosen: np.ndarray) -> list[Rows]:
    """Samples of a window, by their ascending numbers in it."""
    found, first = [], 0
    for rows in window:
        inside = chosen[(chosen >= first) & (chosen < first + len(rows))]
        if len(inside):
            found.append(rows.taken(inside - first))
        first += len(rows)
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
