"""Which raw samples a step behind select, mix or batch_by has, without running the steps before.

A batch of a regrouping depends on all batches before it. So the rule (``regrouping.contract``) forms them all, from a checkpoint or from
the beginning of the epoch. It needs little of the raw samples: their epochs, and a condition or a length. There are two kinds of parts:
``planned_parts`` and ``run_parts``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ...batch import Batch
from ...errors import CheckpointError
from ...provenance.positions import EpochHasNoStep, StepPositions, counted_by_data
from ...provenance.report import Provenance
from ...regrouping.contract import EndOfEpoch, Rows
from ...regrouping.joining import joined
from ...regrouping.origins import RegroupedOrigins
from ...regrouping.part_streams import Raw
from ...runtime.order.delivery import Mark
from ...runtime.order.producer import EpochPlace
from ...runtime.session import Session
from .planned_parts import PlannedMoment
from .run_parts import MOST_RAW, RunPart
from .walked_groups import WalkedGroup

MOST_STEPS = 200_000
"""The search for the end of an epoch ends here."""


class WalkedStep(NamedTuple):
    """A step of a pipeline with regroupings.

    Attributes:
        at: positions of operators before it.
        origins: the raw samples of each regrouping, by name.
        samples: their number.
    """

    at: StepPositions
    origins: Mapping[str, RegroupedOrigins]
    samples: int


class StepWalk:
    """A walk over the steps of a pipeline.

    Args:
        session: the pipeline behind the regroupings. It is not changed.
        begin: where the walk begins.
        groups: its regroupings, at that place.
    """

    def __init__(self, session: Session, begin: Mark, groups: Sequence[WalkedGroup]):
        self._session, self._groups = session, groups
        self.step, self.epoch = begin.place.iteration, begin.place.epoch
        self._walked = 0  # steps of all epochs
        by_data = counted_by_data(session.plan)
        self.unknown = dict.fromkeys(by_data, "its position depends on the decisions of all iterations before")
        operators = {item.planned.spec.name: item.operator for item in session.operators if item.operator.stateful}
        self._operators = operators
        self._positions = {name: begin.positions[name] for name in operators}
        self.close: Callable[[], None] = lambda: None
        """Closes what the walk runs."""
        self._origins: dict[str, RegroupedOrigins] = {}

    @property
    def runs(self) -> list[RunPart]:
        """The parts whose operators have to run."""
        return [part for group in self._groups for part in group.parts if isinstance(part, RunPart)]

    def to(self, step: int, epoch: int | None = None) -> WalkedStep:
        """Walk to a step of an epoch (None: of this one) that is not before this one.

        EpochHasNoStep: the epoch ends before the step. CheckpointError: too many raw iterations would have to run.
        """
        while epoch is not None and self.epoch < epoch:
            self._end_epoch()
        running, far = self.runs, self._walked + step - self.step
        if running and far > MOST_RAW:
            raise CheckpointError(
                f"step {step} is {far} steps behind the step where the walk begins, and the condition of {running[0].operator} has to be "
                f"computed for every raw sample between. At most {MOST_RAW} raw iterations are run for this. Give a checkpoint of a step "
                f"from {max(0, step - MOST_RAW)} on."
            )
        while self.step < step:
            self._go_on(step)
        samples = self._form(step)
        unknown = self.unknown if self._walked else {}
        known = {name: position for name, position in self._positions.items() if name not in unknown}
        return WalkedStep(StepPositions(step, self.epoch, known, unknown), self._origins, samples)

    def _go_on(self, wanted: int) -> None:
        """Go on by at least one step of this epoch, not behind `wanted`."""
        jumped = self._groups[0].jump(wanted - self.step) if len(self._groups) == 1 else 0
        if jumped:
            size = self._groups[0].size
            moved = {name: operator.moved(self._positions[name], jumped, size) for name, operator in self._operators.items()}
        else:
            jumped, samples = 1, self._form(wanted)
            moved = {name: operator.after(self._positions[name], samples) for name, operator in self._operators.items()}
            for group in self._groups:
                group.advance()
        self._positions, self._origins = moved, {}
        self.step, self._walked = self.step + jumped, self._walked + jumped

    def _end_epoch(self) -> None:
        """Go to the beginning of the next epoch."""
        if all(group.endless() for group in self._groups):
            raise ValueError(f"epoch {self.epoch} has no end: nothing ends the epochs of {self._groups[0].name!r}")
        try:
            while self.step < MOST_STEPS:
                self._go_on(MOST_STEPS)
            raise CheckpointError(f"epoch {self.epoch} has more than {MOST_STEPS:,} steps. Give a checkpoint of a later epoch")
        except EpochHasNoStep:
            pass
        for group in self._groups:
            group.next_epoch()
        self.step, self.epoch, self._origins = 0, self.epoch + 1, {}

    def _form(self, wanted: int) -> int:
        """Form the batch, and return its number of samples."""
        if not self._origins:
            found = {}
            for group in self._groups:
                try:
                    found[group.name] = group.form()
                except EndOfEpoch:
                    raise EpochHasNoStep(
                        f"epoch {self.epoch} ends after {self.step} steps, so it has no step {wanted}. Steps are counted from the "
                        "beginning of an epoch; give another `epoch`"
                    ) from None
            sizes = {name: len(origins) for name, origins in found.items()}
            if len(set(sizes.values())) > 1:
                raise ValueError(f"step {self.step}: the regroupings have batches of different sizes, {sizes}")
            self._origins = found
        return len(next(iter(self._origins.values())))

    def place(self) -> tuple[Any, ...]:
        """Where it is, for comparisons."""
        known = {name: position for name, position in self._positions.items() if name not in self.unknown}
        return (known, [group.place() for group in self._groups])


def told_of(session: Session, walked: WalkedStep) -> Provenance:
    """The provenance of a step that a walk has come to."""
    handed = (0, walked.samples) if session.part is None else session.part.of(walked.samples)
    told = Provenance(session, walked.at, walked.samples, handed)
    told.regroup(walked.origins, functools.partial(_fed, session, walked))
    return told


def _fed(session: Session, walked: WalkedStep) -> dict[int, Batch]:
    """The regrouped batches, as far as they are known before pixels are computed, by the edge of the external input."""
    found = {}
    edges = {item.planned.spec.name: item.outputs[0] for item in session.operators}
    pullers: Sequence[Any] = session.producer.sources.pullers
    for puller in pullers:
        pieces = walked.origins[puller.group.name].pieces if puller.group.name in walked.origins else ()
        moments: dict[int, Any] = {id(moment): moment for _, moment, _ in pieces}
        if not moments or not all(isinstance(moment, PlannedMoment) for moment in moments.values()):
            continue
        raws = {key: Raw(moment.step, Mark({}, EpochPlace(0, 0, {})), 0) for key, moment in moments.items()}
        planned = {key: moment.planned(len(puller.group.nodes)) for key, moment in moments.items()}
        rows = [Rows(part, raws[id(moment)], places) for part, moment, places in pieces]
        for output, name in enumerate(puller.group.nodes):
            batches = {key: known[output] for key, known in planned.items()}
            known_ones = {key: batch for key, batch in batches.items() if batch is not None}
            if name in edges and len(known_ones) == len(raws):
                for key, raw in raws.items():
                    raw.batches = [known_ones[key]]
                found[edges[name]] = joined(rows, 0, puller.group.operator)
    return found
