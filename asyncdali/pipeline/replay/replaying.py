"""Makes one step of a pipeline again, with the results of all operators, without running the steps before.

A second session of the same graph returns the outputs of every operator. Positions say where it begins. The pipeline itself is not changed.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import CheckpointError
from ...graph.plan import build_plan, reachable
from ...operators.base import Role
from ...provenance.explain import Explanations
from ...provenance.positions import StepPositions, counted_by_data
from ...provenance.replayed import RawSample, ReplayedStep
from ...regrouping.contract import Rows
from ...regrouping.joining import joined
from ...regrouping.part_streams import Raw
from ...regrouping.regrouping import Regrouping
from ...runtime.blueprint import Blueprint
from ...runtime.session import Session
from ...sources.pullers import Puller
from ...sources.sources import puller_here
from ...tensors.lists import batch_of
from ..front import Front, core_of
from ..streams import part_cores, regroupings
from .beginnings import MOST_RUNS, begin_at, check_epoch, check_sources, fill, for_one_step, go_to, options_of_step, start_of
from .given_batches import GivenBatches
from .results import bad_samples, operators_of, sources_of_edges
from .run_parts import RunPart
from .walking import StepWalk, told_of
from .walks import walk_of

if TYPE_CHECKING:
    from ...batch import Batch
    from ...data_node import DataNode
    from ...graph.plan import Plan
    from ...options import PipelineOptions
    from ...provenance.report import Provenance
    from ...runtime.order.moments import Moment, OriginsInParts
    from ...sources.ports import Port
    from ..core import Core

_KEPT = 2
"""Raw iterations that are kept with the results of all operators. A batch of 64 pictures after ten operators takes about 500 MB."""


def replay(pipeline: Front, step: int | None = None, checkpoint: bytes | None = None, epoch: int | None = None) -> ReplayedStep:
    """The step `step` of the pipeline, counted as ``Pipeline.provenance`` counts. None: that of the checkpoint, or the first one.

    `epoch`: of a pipeline whose regroupings end epochs; None: that of the checkpoint, or the first one.

    Raises:
        RuntimeError: data comes from the program (``feed_input``, sources that do not take a position).
        CheckpointError: the checkpoint does not fit, or does not lead to this step.
    """
    core = core_of(pipeline)
    if checkpoint is None:
        checkpoint = core.options.checkpoint
    replayed = replayed_core(core, options_of_step(core, checkpoint), checkpoint)
    try:
        session = replayed.session(replayed.everything)
        if checkpoint is not None:
            begin_at(session, checkpoint)
        if step is None:
            step = 0 if epoch not in (None, session.began.place.epoch) else session.began.place.iteration
        walk = replayed.walk(session)
        if walk is None:
            check_epoch(session, epoch)
        told = go_to(session, step) if walk is None else walk_to(replayed, session, walk, (epoch, step))
        return replayed.made(session, told)
    finally:
        replayed.close()


class ReplayedCore:
    """A pipeline, or a part of one, whose steps are made again.

    Args:
        core: its core. Its options are not used, and the core is not changed.
        options: for one iteration in this process.
        checkpoint: where it begins; None: at the beginning.
        seed: of the automatic seeds of parts.
    """

    def __init__(self, core: Any, options: PipelineOptions, checkpoint: bytes | None, seed: int):
        self._core, self.options, self._checkpoint = core, options, checkpoint
        self._opened: list[Session | Core] = []
        self.given: list[DataNode] = core.output_nodes()
        self._instances = reachable(self.given, core.definition.instances).order
        check_sources(self._instances)
        self._groups = regroupings(self._instances)
        whole = copy.copy(options)
        whole.checkpoint = checkpoint
        made = part_cores(core, whole, seed, self._groups)
        self.parts = {
            group.name: [
                ReplayedCore(one, for_one_step(one.options), one.options.checkpoint, int(one.options.seed)) for one in made[id(group)]
            ]
            for group in self._groups
        }

    @property
    def everything(self) -> list[DataNode]:
        """The outputs, and then all results of operators that are no outputs."""
        known = {(id(node.source), node.index, node.device) for node in self.given}
        rest = [node for item in self._instances for node in item.outputs if (id(item), node.index, node.device) not in known]
        return [*self.given, *rest]

    def session(self, nodes: Sequence[DataNode], begin: bool = False) -> Session:
        """A session that computes `nodes`. `begin`: it begins at the checkpoint."""
        core = self._core
        session = Session(
            Blueprint(self.options, list(nodes), core.definition, core.access, core.calling, regrouped=self._puller, whole=self.given)
        )
        session.delivery.explain = Explanations(session)
        self._opened.append(session)
        if begin and self._checkpoint is not None:
            begin_at(session, self._checkpoint)
            session.start_at(session.began.positions, session.began.place.iteration, session.began.place.epoch)
        return session

    def close(self) -> None:
        """Close all sessions. Steps that were made before can be read afterwards."""
        opened, self._opened = self._opened, []
        for one in opened:
            one.close()
        for part in (part for parts in self.parts.values() for part in parts):
            part.close()

    def _puller(self, group: Any, ports: dict[str, Port], batch_size: int) -> Puller | None:
        """Regrouped batches are given; a source of worker processes is asked in this process."""
        if isinstance(group, Regrouping):
            return GivenBatches(group, ports, batch_size, lambda: [one.described for one in self.parts[group.name]])
        return puller_here(group, ports, batch_size) if group.parallel else None

    @functools.cached_property
    def planned(self) -> Session:
        """A session of the whole pipeline, which runs nothing: it plans, and explains iterations."""
        return self.session(self.given, True)

    @property
    def described(self) -> dict[str, Any]:
        return self.planned.saving.describe()

    # --- the walk

    def walk(self, session: Session) -> StepWalk | None:
        """A walk from where `session` begins. None: the pipeline has no regroupings."""
        if not self._groups:
            return None
        planned = {group.name: [part.planned for part in self.parts[group.name]] for group in self._groups}
        return walk_of(session, self._groups, planned, {group.name: group.regrouper for group in self._groups}, self.run_part)

    def run_part(self, group: Regrouping, number: int, explained: Session) -> RunPart:
        """A part whose condition is computed, for a walk. `explained`: a session of the whole part."""
        declared, part = group.parts[number], self.parts[group.name][number]
        facts = declared.outputs[len(declared.nodes) :]
        if part._groups:
            core = part._core
            part._opened.append(core)
            core.build()
            return RunPart(number, core.built(), core.fill_awaited, len(declared.nodes), None, declared, group.operator)
        if counted_by_data(explained.plan) or part.options.on_error != "raise":
            return RunPart(number, part.session(part.given, True), fill, len(declared.nodes), None, declared, group.operator)
        readers = explained.readers()  # they and the sources tell where epochs end
        roots = [item.outputs[0] for item in part._instances if item.schema.role is Role.INPUT or item.name in readers]
        begin = start_of(explained) if part._checkpoint is None else explained.began
        known = explained, {name: begin.positions[name] for name in start_of(explained).positions}
        return RunPart(number, part.session([*roots, *facts], True), fill, len(roots), known, declared, group.operator)

    # --- a step

    def give(self, session: Session, origins: Mapping[str, OriginsInParts]) -> None:
        """Give the session the batches of its regroupings for its next iteration. They are made of the parts' raw iterations again."""
        for puller in session.producer.sources.pullers:
            if isinstance(puller, GivenBatches):
                known = origins[puller.group.name]
                puller.give(self._batches(puller, known.pieces), known)

    def _batches(self, puller: GivenBatches, pieces: Sequence[tuple[int, Moment, np.ndarray]]) -> dict[str, Batch]:
        group = puller.group
        moments = {id(moment): (part, moment) for part, moment, _ in pieces}
        raws: dict[int, Raw] = {}
        for number, part in enumerate(self.parts[group.name]):
            wanted = sorted((moment for k, moment in moments.values() if k == number), key=lambda moment: (moment.epoch, moment.step))
            raws.update(part.raws(wanted, len(group.parts[number].nodes)))
        rows = [Rows(part, raws[id(moment)], places) for part, moment, places in pieces]
        return {name: joined(rows, output, group.operator) for output, name in puller.wanted()}

    def raws(self, moments: Sequence[Moment], nodes: int) -> dict[int, Raw]:
        """The first `nodes` outputs of some iterations, by the id of the moment."""
        found: dict[int, Raw] = {}
        if not moments:
            return found
        session = self.session(self.given[:nodes])
        for moment in moments:
            found[id(moment)] = raw = Raw(moment.step, session.delivery.mark(), 0)
            raw.batches = [batch_of(tensors) for tensors in self._run(session, moment)]
        return found

    def _run(self, session: Session, moment: Moment) -> Sequence[Any]:
        """Run the iteration of a moment in a session that has nothing in flight."""
        producer = session.producer
        producer.sources.commit(producer.launched)
        session.start_at({**session.began.positions, **moment.positions}, moment.step, moment.epoch)
        self.give(session, moment.origins)
        fill(session)
        outputs: Sequence[Any] = session.delivery.fetch()
        return outputs

    def made(self, session: Session, told: Provenance) -> ReplayedStep:
        """The next iteration of a session that computes :attr:`everything`."""
        given, error = self.given, ""
        tensors: Sequence[Any] = ()
        fill(session)
        try:
            tensors = session.delivery.fetch()
        except StopIteration:
            raise RuntimeError(f"the sources end the epoch before step {told.step}") from None
        except Exception as failure:
            error = f"{type(failure).__name__}: {failure}"
        whole = build_plan(given, self._core.definition.instances, self._core.definition, lambda k: 0)
        sources = sources_of_edges(session.plan)
        edges = [sources[edge] for edge in session.plan.outputs[: len(given)]]
        if tensors and told.regrouped:  # windows of operators behind are known now
            told.keep(tensors[0].moment.choices)
        dropped = {place for actions in told.bad.values() for place, action in actions.items() if action == "drop"}
        places = [place for place in range(told.samples) if place not in dropped]
        return ReplayedStep(
            told, [node.name for node in given], list(tensors[: len(given)]), edges, places, bad_samples(session, told),
            [] if error else operators_of(session.plan, tensors, sources), whole, error, int(self.options.seed or 0),
            self._plans(), functools.partial(self._before, told.regrouped),
        )  # fmt: skip

    def _plans(self) -> list[tuple[str, Plan]]:
        """The graphs before the regroupings, with titles."""
        found = []
        for name, parts in self.parts.items():
            for number, part in enumerate(parts):
                definition = part._core.definition
                found.append((f"part {number} of {name}", build_plan(part.given, definition.instances, definition, lambda k: 0)))
                found += part._plans()
        return found

    def _before(self, origins: Mapping[str, OriginsInParts], place: int) -> list[RawSample]:
        """The raw samples that a sample of the step was chosen from."""
        found = []
        for name, known in origins.items():
            part, moment, raw_place = known.of(place)
            found.append(RawSample(name, part, self.parts[name][part].step_of(moment), raw_place))
        return found

    def step_of(self, moment: Moment) -> ReplayedStep:
        """The iteration of a moment of this part, with the results of all operators. The last ones are kept."""
        known = self._steps.get(id(moment))
        if known is None:
            session = self.session(self.everything)
            try:
                session.start_at({**session.began.positions, **moment.positions}, moment.step, moment.epoch)
                self.give(session, moment.origins)
                known = moment, self.made(session, moment.provenance())  # type: ignore[arg-type]  # a Provenance
            finally:
                self.close()
            self._steps[id(moment)] = known  # the entry keeps the moment alive, so no other object gets its id
            while len(self._steps) > _KEPT:
                self._steps.pop(next(iter(self._steps)))
        return known[1]

    @functools.cached_property
    def _steps(self) -> dict[int, tuple[Moment, ReplayedStep]]:
        return {}


def walk_to(replayed: ReplayedCore, session: Session, walk: StepWalk, wanted: tuple[int | None, int]) -> Provenance:
    """Bring the session to a step (epoch, step) behind regroupings, and return the provenance of the step."""
    began = session.began.place
    first, (epoch, step) = began.iteration, wanted
    epoch = began.epoch if epoch is None else epoch
    if step < 0:
        raise ValueError(f"the step is {step}; steps are counted from 0")
    if (epoch, step) < (began.epoch, first):
        raise CheckpointError(
            f"step {step} of epoch {epoch} is before step {first} of epoch {began.epoch} of the checkpoint. Give an earlier checkpoint, or "
            "none"
        )
    at_once = not walk.unknown or (epoch, step) == (began.epoch, first)
    walked = walk.to(step, epoch) if at_once else None
    if walked is None:
        if epoch != began.epoch or step - first > MOST_RUNS:
            raise CheckpointError(
                f"{', '.join(walk.unknown)}: the positions at step {step} depend on the decisions of all iterations before. Give a "
                f"checkpoint of the last {MOST_RUNS} steps before."
            )
        session.start_at(session.began.positions, first, session.began.place.epoch)
        for before in range(first, step):
            replayed.give(session, walk.to(before).origins)
            fill(session)
            session.delivery.fetch()
        walked = walk.to(step)
        names = {item.planned.spec.name for item in session.operators}
        positions = {name: position for name, position in session.delivery.mark().positions.items() if name in names}
        walked = walked._replace(at=StepPositions(step, walked.at.epoch, positions, {}))
    else:
        session.start_at({**session.began.positions, **walked.at.operators}, step, walked.at.epoch)
    replayed.give(session, walked.origins)
    return told_of(session, walked)


def replayed_core(core: Core, options: PipelineOptions, checkpoint: bytes | None) -> ReplayedCore:
    """The pipeline of `core` with `options`, from a checkpoint on."""
    core.output_nodes()
    streams = core.processes.streams
    seed = streams.seed if streams.seed is not None else int(options.seed or 0)
    return ReplayedCore(core, options, checkpoint, seed)
