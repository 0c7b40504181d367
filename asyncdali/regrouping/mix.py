"""experimental.mix: which part the next batch, or the next sample, comes from."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..operators.base import Arg, Role, Schema, register
from .contract import EndOfEpoch, Reading, Rows
from .regrouping import RegroupedInput
from .shares import PERIOD, sequence, thousandths

STOPS = ("first", "last", "never")
"""Values of the argument `stop`."""

MOST_CHANGES = 64
"""Changes of weights that may lie ahead. A checkpoint has all of them."""

MOST_KEPT = 10_000
"""Changes of weights that a mix keeps, those behind the newest batch included: a step of long ago is formed again from them."""


class MixState(NamedTuple):
    """The state of a mix before a batch.

    Attributes:
        step: number of batches before it, of all epochs.
        unit: number of batches (with ``per="sample"``: of samples) since the weights are in force.
        shares: the weights in force, in thousandths.
        over: for each part, whether an epoch of it has ended in this epoch of the mix.
        ended: the epoch ends before the next batch.
        changes: changes of weights that lay ahead in the checkpoint: step and shares.
    """

    step: int
    unit: int
    shares: tuple[int, ...]
    over: tuple[bool, ...]
    ended: bool = False
    changes: tuple[tuple[int, tuple[int, ...]], ...] = ()


class Mixing:
    """See the module.

    Args:
        weights: of the parts.
        per_sample: whether the units are samples.
        stop: "first", "last" or "never".
    """

    def __init__(self, weights: Sequence[float], per_sample: bool, stop: str):
        self._count = len(weights)
        self._start = MixState(0, 0, thousandths(weights), (False,) * len(weights))
        self._per_sample, self._stop = per_sample, stop
        self._changes: tuple[tuple[int, tuple[int, ...]], ...] = ()  # in order of steps; never changed in place, because copies share it
        self._forgotten = -1  # the last step whose change is not kept

    @property
    def endless(self) -> bool:
        """Whether its epochs have no end."""
        return self._stop == "never"

    @property
    def start(self) -> MixState:
        return self._start

    # --- weights

    def change(self, weights: Sequence[float], at: int, next_step: int) -> None:
        """Use other weights from batch `at` on. `next_step` is the first batch that is not formed yet.

        ValueError for a batch that is formed already, and for too many changes.
        """
        if len(weights) != self._count:
            raise ValueError(f"the mix has {self._count} parts, got {len(weights)} weights")
        if isinstance(at, bool) or not hasattr(at, "__index__"):
            raise TypeError(f"`at` is the number of a batch of the mix, counted from 0 over all epochs; got {at!r}")
        if not next_step <= at < 1 << 62:
            raise ValueError(f"batch {at} of the mix is prepared already; weights can change from batch {next_step} on")
        shares = thousandths(weights)
        known = {**dict(self._changes), int(at): shares}
        if at not in dict(self._changes) and sum(step >= next_step for step in known) > MOST_CHANGES:
            raise ValueError(f"{MOST_CHANGES} changes of weights lie ahead; a mix keeps no more")
        changes = sorted(known.items())
        if len(changes) > MOST_KEPT:
            self._forgotten = changes.pop(0)[0]
        self._changes = tuple(changes)

    def _first_ahead(self, state: MixState) -> int:
        """The number in `_changes` of the first change at a state or behind. ValueError if older ones are needed."""
        if state.step <= self._forgotten:
            raise ValueError(
                f"batch {state.step} of the mix cannot be formed again: the weights changed at batch {self._forgotten}, and a mix keeps "
                f"its last {MOST_KEPT:,} changes. Begin from a checkpoint of a later step"
            )
        return bisect_left(self._changes, (state.step,))

    def _in_force(self, state: MixState) -> MixState:
        first = self._first_ahead(state)
        step, shares = self._changes[first] if first < len(self._changes) else (-1, ())
        shares = shares if step == state.step else dict(state.changes).get(state.step, ())
        return state._replace(shares=shares, unit=0) if shares else state

    def _ahead(self, state: MixState) -> dict[int, tuple[int, ...]]:
        """All changes at a state or behind."""
        saved = {step: shares for step, shares in state.changes if step >= state.step}
        return {**saved, **dict(self._changes[self._first_ahead(state) :])}

    # --- batches

    def steady(self, state: MixState) -> int:
        """Number of batches from `state` on in which neither the weights nor the epoch change, as far as the mix itself decides it."""
        first = self._first_ahead(state)
        own = self._changes[first : first + 1]
        ahead = [step - state.step for step, _ in (*state.changes, *own) if step >= state.step]
        return 0 if state.ended else min(ahead, default=1 << 62)

    def taken(self, state: MixState, batches: int, size: int) -> np.ndarray:
        """Number of samples that the next `batches` batches of `size` samples take of each part, if no epoch of a part ends in them.

        It is a formula. `batches` is at most :meth:`steady`.
        """
        order = sequence(state.shares)
        units = batches * size if self._per_sample else batches
        first, (periods, rest) = state.unit % PERIOD, divmod(units, PERIOD)
        window = np.concatenate([order, order])[first : first + rest]
        counts: np.ndarray = np.array(state.shares) * periods + np.bincount(window, minlength=self._count)
        return counts if self._per_sample else counts * size

    def behind(self, state: MixState, batches: int, size: int) -> MixState:
        """The state behind the batches of :meth:`taken`."""
        units = batches * size if self._per_sample else batches
        changes = tuple(item for item in state.changes if item[0] >= state.step + batches)
        return state._replace(step=state.step + batches, unit=state.unit + units, changes=changes)

    def form(self, parts: Sequence[Reading], state: MixState, size: int) -> tuple[list[Rows], MixState]:
        if state.ended:
            raise EndOfEpoch(self._next_epoch(state))
        state = self._in_force(state)
        order = sequence(state.shares)
        over, found, missing, unit = list(state.over), list[Rows](), size, state.unit
        while missing:
            part = int(order[unit % PERIOD])
            rows = self._next(parts, part, 1 if self._per_sample else missing, state.shares, over)
            if rows is None:
                break
            found.append(rows)
            missing -= len(rows)
            unit += self._per_sample
        if not found:
            raise EndOfEpoch(self._next_epoch(state))
        behind = unit if self._per_sample else unit + 1
        changes = tuple(item for item in state.changes if item[0] > state.step)
        return _in_runs(found), MixState(state.step + 1, behind, state.shares, tuple(over), missing > 0, changes)

    def _next(self, parts: Sequence[Reading], part: int, most: int, shares: tuple[int, ...], over: list[bool]) -> Rows | None:
        """The next samples of a part. None: the epoch of the mix ends instead; the part is then at the beginning of its next epoch."""
        reading = parts[part]
        for _ in range(2):
            rows = reading.rows(most)
            if rows is not None:
                return rows
            reading.next_epoch()
            others = all(over[k] or not shares[k] for k in range(len(parts)) if k != part)
            if self._stop == "first" or (self._stop == "last" and others):
                return None
            over[part] = True
        raise ValueError(f"part {part} of the mix has no sample in a whole epoch")

    def _next_epoch(self, state: MixState) -> MixState:
        return state._replace(over=(False,) * self._count, ended=False)

    # --- checkpoints

    def save(self, state: MixState) -> dict[str, object]:
        return {**state._asdict(), "changes": sorted(self._ahead(state).items())}

    def load(self, data: Any) -> MixState:
        try:
            step, unit, ended = data["step"], data["unit"], data["ended"]
            shares, over = self._checked(data["shares"]), tuple(data["over"])
            changes = tuple((at, self._checked(own)) for at, own in data["changes"])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{data!r} is not the state of a mix of {self._count} parts ({error})") from None
        numbers = [step, unit, *(at for at, _ in changes)]
        if not all(type(value) is int and 0 <= value < 1 << 62 for value in numbers) or len(changes) > 2 * MOST_CHANGES:
            raise ValueError(f"{data!r} is not the state of a mix: its numbers are out of range")
        if len(over) != self._count or not all(type(value) is bool for value in (*over, ended)):
            raise ValueError(f"{data!r} is not the state of a mix of {self._count} parts")
        return MixState(step, unit, shares, over, ended, changes)

    def _checked(self, shares: Any) -> tuple[int, ...]:
        if len(shares) != self._count or not all(type(value) is int and 0 <= value <= PERIOD for value in shares) or sum(shares) != PERIOD:
            raise ValueError(f"shares {shares!r}")
        return tuple(shares)


def _in_runs(found: list[Rows]) -> list[Rows]:
    """Neighbours of one raw iteration together: parts give single samples."""
    runs: list[list[Rows]] = []
    for rows in found:
        if runs and runs[-1][0].raw is rows.raw:
            runs[-1].append(rows)
        else:
            runs.append([rows])
    return [run[0].joined(run[1:]) for run in runs]


@register
class Mix(RegroupedInput):
    schema = Schema(
        name="experimental.mix",
        doc="""Mixes samples of several data sets in fixed shares.

        See :func:`asyncdali.fn.experimental.mix`, and docs/bad_data.md for what to choose when.""",
        inputs=(0, 0),
        hand_written="regrouping.calls",
        role=Role.INPUT,
        calls_python=True,
        args=(
            Arg("per", "str", "batch", "Whether shares are of batches or of samples.", stream=True),
            Arg("stop", "str", "first", "The end of an epoch: that of the first part that ends, of the last, or none.", stream=True),
        ),
    )
