"""Parts of regroupings whose raw iterations are planned, not run: the condition is known before pixels are computed.

It uses labels, draws, shapes in headers, or nothing at all, as mix does. A raw iteration takes 20 to 200 us. Raw iterations that failed in
the run are not known, and are taken to have succeeded.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...batch import Batch
from ...errors import CheckpointError
from ...provenance.positions import StepPositions, counted_by_data, positions_at
from ...provenance.report import Provenance
from ...regrouping.joining import condition_of
from ...regrouping.part_streams import PartStream, Raw
from ...regrouping.regrouping import DeclaredPart
from ...runtime.order.delivery import Mark
from ...runtime.order.moments import NO_ORIGINS
from ...runtime.order.producer import EpochPlace
from ...runtime.session import Session

if TYPE_CHECKING:
    from ...readers.base import ReaderOperator
    from ...runtime.order.moments import OriginsInParts
    from ...runtime.work.segments import BuiltOperator


class PlannedMoment:
    """A raw iteration that was not run; it stands for a ``runtime.order.moments.Moment``."""

    origins: Mapping[str, OriginsInParts] = NO_ORIGINS

    def __init__(self, session: Session, step: int, epoch: int, run: tuple[int, Mapping[str, object]] | None = None):
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
        raw.batches = [*no_batches(self._nodes), *(batch.chosen(rows) for batch in facts)]
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


def no_batches(count: int) -> list[Batch]:
    """Stands for the nodes of a part: a rule reads the facts behind them only."""
    return [None] * count  # type: ignore[list-item]
