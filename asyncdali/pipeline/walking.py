"""Which raw samples a step behind select, mix or batch_by has, without running the steps before.

A batch of a regrouping depends on all batches before it. So the rule (``regrouping.contract``) forms them all, from a checkpoint or from
the beginning of the epoch. It needs little of the raw samples: their epochs, and a condition or a length. There are two kinds of parts:

- :class:`PlannedPart`: the condition is known before pixels are computed. It uses labels, draws, shapes in headers, or nothing at all, as
  mix does. A raw iteration takes 20 to 200 us.
- :class:`RunPart`: other conditions. Only the operators that the condition needs run, at most `MOST_RAW` raw iterations.

Raw iterations that failed in the run are not known, and are taken to have succeeded.
"""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from asyncdali_workers.interrupts import raised_by_signal

from ..batch import Batch
from ..errors import CheckpointError
from ..provenance.positions import EpochHasNoStep, StepPositions, counted_by_data, positions_at
from ..provenance.report import Provenance
from ..regrouping.contract import Cursor, EndOfEpoch, Rows
from ..regrouping.joining import condition_of, joined
from ..regrouping.mix import Mixing
from ..regrouping.origins import RegroupedOrigins
from ..regrouping.part_streams import PartStream, Raw
from ..regrouping.puller import RegroupPosition
from ..regrouping.regrouping import DeclaredPart, Regrouping
from ..runtime.order.delivery import Mark
from ..runtime.order.moments import NO_ORIGINS
from ..runtime.order.producer import EpochPlace
from ..runtime.session import Session

if TYPE_CHECKING:
    from ..readers.base import ReaderOperator
    from ..runtime.order.moments import Moment, OriginsInParts
    from ..runtime.order.record import Record
    from ..runtime.work.segments import BuiltOperator

MOST_STEPS = 200_000
"""The search for the end of an epoch ends here."""
_WORTH = 8
"""Fewer batches of a mix are formed one by one."""
MOST_RAW = 1000
"""Raw iterations that are run at most, if the condition is not known before pixels are computed."""


class PlannedMoment:
    """A raw iteration that was not run; it stands for a ``runtime.order.moments.Moment``."""

    origins: Mapping[str, OriginsInParts] = NO_ORIGINS

    def __init__(self, session: Session, step: int, epoch: int, run: tuple[int, Mapping[str, Any]] | None = None):
        """`run`: number of samples and positions of an iteration that was run in part. None: they are a formula of the step."""
        self._session, self.step, self.epoch = session, step, epoch
        self.samples = int(session.options.batch_size) if run is None else run[0]
        self._run = run

    @functools.cached_property
    def _told(self) -> Provenance:
        at = positions_at(self._session, self.step) if self._run is None else StepPositions(self.step, self.epoch, self._run[1], {})
        return Provenance(self._session, StepPositions(self.step, self.epoch, at.operators, at.unknown), self.samples, (0, self.samples))

    @property
    def positions(self) -> Mapping[str, Any]:
        """Before the iteration, by the name of the operator."""
        return self._told._at.operators

    def provenance(self) -> Provenance:
        """The provenance of the iteration."""
        return self._told

    def planned(self, count: int) -> list[Batch | None]:
        """The first `count` outputs, as far as they are known before pixels are computed."""
        edges = self._session.plan.outputs[:count]
        homes = {edge: built.planned.spec.name for built in self._session.operators for edge in built.outputs}
        names = tuple(dict.fromkeys(homes[edge] for edge in edges))
        run = self._session.dry_runs.run(names, self.positions, self.samples, self.step)
        return [run.edges[edge] if edge in run.known else None for edge in edges]


class PlannedPart(PartStream):
    """A part whose raw iterations are planned.

    Args:
        session: of the part. It is not changed.
        begin: where the part begins.
        part: as it was declared.
        number, name: as for :class:`PartStream`.
    """

    def __init__(self, number: int, session: Session, begin: Mark, part: DeclaredPart, name: str):
        self._step, self._at = begin.place.iteration, dict(begin.positions)
        super().__init__(number, session, _runs_nothing, part.where is not None, name)
        self._nodes = len(part.nodes)
        self._edges = session.plan.outputs[self._nodes :]
        homes = {edge: built.planned.spec.name for built in session.operators for edge in built.outputs}
        self._names = tuple(dict.fromkeys(homes[edge] for edge in self._edges))
        self._moving = {name: item.operator for name, item in session.stateful.items() if hasattr(item, "operator")}
        self._look()
        needed = session.dry_runs.needed_by(self._names)
        kept = {built.planned.spec.name for built in needed} | (set() if self.reader is None else {self.reader.spec.name})
        self._moving = {name: operator for name, operator in self._moving.items() if name in kept}
        self._known = _labels(session, needed, self._edges)

    def mark(self) -> Mark:
        return Mark({}, EpochPlace(0, self._step, {}))

    def _work_ahead(self, used: int) -> None:
        """Nothing runs."""

    def left(self, most: int) -> int:
        """Number of samples of the current epoch that are left, at most about `most`, without those of its last raw iterations."""
        if self.reader is None:
            return most
        at, samples = self.cursor, int(self.session.options.batch_size)
        first = self._first_place()
        position = self._positions_of_cursor()[self.reader.spec.name]
        runs = self.reader.order.runs(position, first + min(most, 2 * self.reader.order.padded_shard_size))
        stop = sum(run.samples for run in runs if run.epoch < at.label or (run.epoch == at.label and not run.padding))
        return max(0, stop - first - samples)

    def _first_place(self) -> int:
        """The place of the next sample in its raw iteration: behind the samples of an epoch that has ended."""
        if self.reader is None:
            return self.cursor.place
        position = self._positions_of_cursor()[self.reader.spec.name]
        runs = self.reader.order.runs(position, int(self.session.options.batch_size))
        return max(self.cursor.place, sum(run.samples for run in runs if run.epoch < self.cursor.label))

    def _positions_of_cursor(self) -> Mapping[str, Any]:
        """Positions before the raw iteration where the next batch begins."""
        return self._raws[0].moment.positions if self._raws else self._at  # type: ignore[union-attr]  # no planned iteration fails

    def skip(self, count: int) -> None:
        """Go on by so many samples of the current epoch."""
        samples, at = int(self.session.options.batch_size), self.cursor
        step = at.mark.place.iteration
        moved, place = divmod(self._first_place() + count, samples)
        positions = self._positions_of_cursor()
        self._at = {name: operator.moved(positions[name], moved, samples) for name, operator in self._moving.items()}
        self._raws, self._step = [], step + moved
        self.cursor = at._replace(number=at.number + moved, place=place, mark=self.mark())

    def why_not(self) -> str:
        """Why the raw iterations cannot be planned; empty: they can."""
        session = self.session
        if session.producer.sources.pullers:
            return "an epoch ends where its sources end"
        if counted_by_data(session.plan):
            return "positions depend on the decisions of all iterations before"
        repairs = session.repairs
        if repairs is not None and (repairs.may_drop or self._edges):
            return "bad samples are replaced or dropped"
        try:
            self._facts()
        except _UnknownFact as error:
            return str(error)
        return ""

    def _facts(self) -> list[Batch]:
        """The measures and the condition of the next raw iteration."""
        if not self._edges:
            return []
        samples, fed = int(self.session.options.batch_size), dict[int, Batch]()
        for reader, outputs in self._known:
            known = reader.known(reader.taken(self._at[reader.spec.name], samples)[0])
            fed.update((edge, known[number]) for number, edge in outputs)
        run = self.session.dry_runs.run(self._names, self._at, samples, self._step, fed)
        for edge in self._edges:
            if edge not in run.known:
                raise _UnknownFact("; ".join(run.failures.values()) or "it is computed from pixels")
        return [run.edges[edge] for edge in self._edges]

    def _more(self) -> None:
        samples = int(self.session.options.batch_size)
        try:
            facts = self._facts()
        except _UnknownFact as error:
            raise CheckpointError(f"raw iteration {self._step} of part {self.number} of {self._name!r}: {error}") from None
        labels, real, after = self._epochs(self._at, samples)
        raw = Raw(self._next_number(), self.mark(), after)
        chosen = real & condition_of(facts.pop(), self._name) if self._condition else real
        rows = np.flatnonzero(chosen)
        raw.batches = [*_no_batches(self._nodes), *(batch.chosen(rows) for batch in facts)]
        raw.places, raw.labels = rows, labels[rows]
        raw.moment = PlannedMoment(self.session, self._step, 0)  # type: ignore[assignment]  # it stands for one
        self._raws.append(raw)
        self._at = {**self._at, **{name: operator.after(self._at[name], samples) for name, operator in self._moving.items()}}
        self._step += 1


def _labels(
    session: Session, needed: Sequence[BuiltOperator], edges: Sequence[int]
) -> list[tuple[ReaderOperator, list[tuple[int, int]]]]:
    """Readers among the needed operators whose used outputs are known without files, with numbers and edges of these outputs."""
    used = {edge for built in needed for edge in (*built.inputs, *built.planned.arguments.values())} | set(edges)
    found = []
    for name, reader in session.readers().items():
        built = next((built for built in needed if built.planned.spec.name == name), None)
        outputs = [] if built is None else [(number, edge) for number, edge in enumerate(built.outputs) if edge in used]
        if outputs and {number for number, _ in outputs} <= reader.known(np.empty(0, np.int64)).keys():
            found.append((reader, outputs))
    return found


class _UnknownFact(Exception):
    """A condition or a length is not known before pixels are computed; the message says why."""


def _runs_nothing(session: Session) -> None:
    """A planned part queues no iterations."""


def _no_batches(count: int) -> list[Batch]:
    """Stands for the nodes of a part: a rule reads the facts behind them only."""
    return [None] * count  # type: ignore[list-item]


class RunPart(PartStream):
    """A part whose condition is computed.

    Args:
        session: computes `leading` other outputs, the measures and the condition. It begins where the part begins.
        fill: queues an iteration of the session.
        explained: a session of the whole part, which explains raw iterations, and its positions there. None: `session` does.
        part, number, name: as for :class:`PlannedPart`.
    """

    def __init__(
        self, number: int, session: Session, fill: Callable[[Session], None], leading: int,
        explained: tuple[Session, Mapping[str, Any]] | None, part: DeclaredPart, name: str,
    ):  # fmt: skip
        super().__init__(number, session, fill, part.where is not None, name)
        self._leading, self.explained, self._nodes = leading, explained, len(part.nodes)
        self.operator = name
        self._made_so_far = 0
        self._look()

    def _made(
        self, raw: Raw, moment: Moment, record: Record, batches: list[Batch], labels: np.ndarray, real: np.ndarray
    ) -> Raw:
        super()._made(raw, moment, record, batches, labels, real)
        raw.batches = [*_no_batches(self._nodes), *raw.batches[self._leading :]]
        if self.explained is not None:
            session, positions = self.explained
            told = PlannedMoment(session, moment.step, moment.epoch, (moment.samples, positions))
            raw.moment = told  # type: ignore[assignment]  # it stands for one
        return raw

    def _keep(self, record: Record, result: Any) -> None:
        super()._keep(record, result)
        if self.explained is not None:  # sources may end epochs, so positions are no formula of the step
            session, positions = self.explained
            samples = self.session.delivery.moment(record).samples
            operators = {item.planned.spec.name: item.operator for item in session.operators if item.operator.stateful}
            self.explained = session, {name: operator.after(positions[name], samples) for name, operator in operators.items()}

    def _more(self) -> None:
        if self._made_so_far >= MOST_RAW:
            raise CheckpointError(
                f"{self._name}: {MOST_RAW} raw iterations of part {self.number} were run, and the step is further away. Give a checkpoint "
                "of a later step."
            )
        super()._more()
        self._made_so_far += 1


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

