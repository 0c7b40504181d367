"""Makes one step of a pipeline again, with the results of all operators, without running the steps before.

A second session of the same graph returns the outputs of every operator. Positions say where it begins. The pipeline itself is not changed.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import checkpoint as checkpoints
from ..dali_files import checkpoints as dali_checkpoints
from ..errors import CheckpointError
from ..graph.plan import build_plan, reachable
from ..operators.base import Role
from ..provenance.explain import Explanations
from ..provenance.positions import EpochHasNoStep, StepPositions, counted_by_data, positions_at
from ..provenance.replayed import RawSample, ReplayedOperator, ReplayedStep
from ..regrouping.contract import Rows
from ..regrouping.joining import joined
from ..regrouping.part_streams import PartStream, Raw
from ..regrouping.puller import RegroupPosition, RegroupPositions
from ..regrouping.regrouping import Regrouping
from ..runtime.blueprint import Blueprint
from ..runtime.order.delivery import Mark
from ..runtime.order.producer import EpochPlace
from ..runtime.session import Session
from ..sources.pullers import Puller
from ..sources.sources import puller_here
from ..tensors.lists import batch_of
from .front import Front, core_of
from .streams import part_cores, ready_name, regroupings
from .walking import PlannedPart, RunPart, StepWalk, WalkedGroup, told_of

if TYPE_CHECKING:
    from ..batch import Batch
    from ..data_node import DataNode
    from ..graph.plan import Plan, PlannedOperator
    from ..options import PipelineOptions
    from ..provenance.report import Provenance
    from ..runtime.order.moments import Moment, OriginsInParts
    from ..sources.ports import Port
    from .core import Core

_KEPT = 2
"""Raw iterations that are kept with the results of all operators. A batch of 64 pictures after ten operators takes about 500 MB."""
MOST_RUNS = 1000
"""If decisions of conditionals determine positions, at most this number of steps is run to find them."""


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
    replayed = replayed_core(core, _options(core, checkpoint), checkpoint)
    try:
        session = replayed.session(replayed.everything)
        if checkpoint is not None:
            _begin(session, checkpoint)
        if step is None:
            step = 0 if epoch not in (None, session.began.place.epoch) else session.began.place.iteration
        walk = replayed.walk(session)
        if walk is None:
            check_epoch(session, epoch)
        told = _go_to(session, step) if walk is None else _walk_to(replayed, session, walk, (epoch, step))
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
        _check_sources(self._instances)
        self._groups = regroupings(self._instances)
        whole = copy.copy(options)
        whole.checkpoint = checkpoint
        made = part_cores(core, whole, seed, self._groups)
        self.parts = {
            group.name: [
                ReplayedCore(one, _for_one_step(one.options), one.options.checkpoint, int(one.options.seed)) for one in made[id(group)]
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
            _begin(session, self._checkpoint)
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
            return RunPart(number, part.session(part.given, True), _fill, len(declared.nodes), None, declared, group.operator)
        readers = explained.readers()  # they and the sources tell where epochs end
        roots = [item.outputs[0] for item in part._instances if item.schema.role is Role.INPUT or item.name in readers]
        begin = _start(explained) if part._checkpoint is None else explained.began
        known = explained, {name: begin.positions[name] for name in _start(explained).positions}
        return RunPart(number, part.session([*roots, *facts], True), _fill, len(roots), known, declared, group.operator)

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
        _fill(session)
        outputs: Sequence[Any] = session.delivery.fetch()
        return outputs

    def made(self, session: Session, told: Provenance) -> ReplayedStep:
        """The next iteration of a session that computes :attr:`everything`."""
        given, error = self.given, ""
        tensors: Sequence[Any] = ()
        _fill(session)
        try:
            tensors = session.delivery.fetch()
        except StopIteration:
            raise RuntimeError(f"the sources end the epoch before step {told.step}") from None
        except Exception as failure:
            error = f"{type(failure).__name__}: {failure}"
        whole = build_plan(given, self._core.definition.instances, self._core.definition, lambda k: 0)
        sources = _sources_of_edges(session.plan)
        edges = [sources[edge] for edge in session.plan.outputs[: len(given)]]
        if tensors and told.regrouped:  # windows of operators behind are known now
            told.keep(tensors[0].moment.choices)
        dropped = {place for actions in told.bad.values() for place, action in actions.items() if action == "drop"}
        places = [place for place in range(told.samples) if place not in dropped]
        return ReplayedStep(
            told, [node.name for node in given], list(tensors[: len(given)]), edges, places, _bad(session, told),
            [] if error else _operators(session.plan, tensors, sources), whole, error, int(self.options.seed or 0),
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
            self._steps[id(moment)] = known  # with the moment, whose id no other has then
            while len(self._steps) > _KEPT:
                self._steps.pop(next(iter(self._steps)))
        return known[1]

    @functools.cached_property
    def _steps(self) -> dict[int, tuple[Moment, ReplayedStep]]:
        return {}


class GivenBatches(Puller):
    """Stands for a regrouping whose batches are given."""

    kind = "regrouped"
    group: Any  # a Regrouping

    def __init__(self, group: Regrouping, ports: dict[str, Port], batch_size: int, graphs: Callable[[], list[dict[str, Any]]]):
        super().__init__(group, ports, batch_size)  # type: ignore[arg-type]  # it has what pullers read of a Group
        self._graphs = graphs
        self._given: dict[str, Batch] = {}

    @property
    def graphs(self) -> list[dict[str, Any]]:
        return self._graphs()

    def keep_snapshots(self) -> Any:
        return _SavedPosition()

    def wanted(self) -> list[tuple[int, str]]:
        """The outputs that the pipeline uses: number and name."""
        return [(number, port.name) for number, port in enumerate(self._ports) if port is not None]

    def give(self, batches: dict[str, Batch], origins: OriginsInParts) -> None:
        """Set the next batches."""
        self._given, self.origins = batches, origins

    def pull(self) -> dict[str, Batch]:
        return self._given


class _SavedPosition:
    """The position of a regrouping as a checkpoint has it; a session keeps it, and does not move it."""

    position: Any = None
    before: Any = None

    def load(self, data: Any) -> Any:
        return data

    def save(self, position: Any) -> Any:
        return position

    def settle(self) -> None:
        """Nothing changes."""


def replayed_core(core: Core, options: PipelineOptions, checkpoint: bytes | None) -> ReplayedCore:
    """The pipeline of `core` with `options`, from a checkpoint on."""
    core.output_nodes()
    streams = core.processes.streams
    seed = streams.seed if streams.seed is not None else int(options.seed or 0)
    return ReplayedCore(core, options, checkpoint, seed)


def walk_of(
    session: Session, groups: Sequence[Regrouping], planned: Mapping[str, Sequence[Session]], regroupers: Mapping[str, Any],
    run_part: Callable[[Regrouping, int, Session], RunPart], fresh: bool = False,
) -> StepWalk:  # fmt: skip
    """A walk from where `session` and the `planned` sessions of its parts begin.

    `regroupers`: the rules by the name of the regrouping. `run_part` makes a part whose condition has to be computed. `fresh`: the walk
    begins at the beginning of a fresh pipeline.
    """
    timed = ready_name(groups)
    if timed:
        raise CheckpointError(
            f"steps behind {timed!r} cannot be computed: fn.experimental.ready gives batches as they are finished. batch.provenance() "
            "tells the origins of a batch that was returned."
        )
    begin = _start(session) if fresh else session.began
    found = []
    for group in groups:
        parts: list[PartStream] = []
        for number, one in enumerate(planned[group.name]):
            part = PlannedPart(number, one, _start(one) if fresh else one.began, group.parts[number], group.operator)
            parts.append(part if not part.why_not() else run_part(group, number, one))
        saved = begin.positions.get(group.name)
        if saved is not None and not isinstance(saved, RegroupPosition):
            saved = RegroupPositions(group.name, regroupers[group.name], parts).load(saved)
        found.append(WalkedGroup.begin(group, regroupers[group.name], parts, int(session.options.batch_size), saved))
    return StepWalk(session, begin, found)


def _start(session: Session) -> Mark:
    """The beginning of a fresh pipeline."""
    return Mark({item.planned.spec.name: item.operator.start for item in session.operators if item.operator.stateful}, EpochPlace(0, 0, {}))


def check_epoch(session: Session, epoch: int | None) -> None:
    """ValueError for another epoch than that of the checkpoint, in a pipeline without regroupings."""
    if epoch is not None and epoch != session.began.place.epoch:
        raise ValueError(
            f"epoch {epoch}: only epochs of select, mix and batch_by can be chosen. Readers count steps over all epochs, and the number of "
            "steps of a Python source is not known; give a checkpoint of that epoch"
        )


def provenance_behind(core: Core, step: int, epoch: int | None = None) -> Provenance:
    """The provenance of a step of a built pipeline with regroupings. ``Streams.walk`` keeps how far the walk has come.

    ValueError: a negative step, or one behind the end of the epoch. CheckpointError: the step is too far away, or is before a checkpoint
    to which a fresh pipeline does not lead.
    """
    if step < 0:
        raise ValueError(f"the step is {step}; steps are counted from 0")
    session, streams = core.built(), core.processes.streams
    began = session.began.place
    wanted = (began.epoch if epoch is None else epoch, step)
    with streams.walking:
        walk, streams.walk = streams.walk, None
        if walk is None or wanted < (walk.epoch, walk.step):
            if walk is not None:
                walk.close()
            fresh = wanted < (began.epoch, began.iteration)
            if fresh:
                _check_start(core, session)
            walk = _built_walk(core, session, fresh)
        try:
            walked = walk.to(step, wanted[0])
        except BaseException:
            walk.close()
            raise
        streams.walk = walk
        if core.closed:
            streams.walk = None
            walk.close()
    return told_of(session, walked)


def _check_start(core: Core, session: Session) -> None:
    """CheckpointError if a fresh pipeline does not lead to the restored checkpoint."""
    first, epoch = session.began.place.iteration, session.began.place.epoch
    walks = [_built_walk(core, session, fresh) for fresh in (True, False)]
    try:
        if not _meet(walks, first, epoch):
            raise CheckpointError(
                f"steps before step {first} of epoch {epoch} of the restored checkpoint cannot be computed from it: a fresh pipeline would "
                "come to another place there. Restore an earlier checkpoint, or make the pipeline with the seed of the run."
            )
    finally:
        for walk in walks:
            walk.close()


def _meet(walks: Sequence[StepWalk], step: int, epoch: int) -> bool:
    """Whether two walks come to the same place."""
    try:
        known = [walk.to(step, epoch) for walk in walks]
    except EpochHasNoStep:  # at the end of an epoch the place is compared
        pass
    else:
        if known[0].at != known[1].at:
            return False
    return walks[0].place() == walks[1].place()


def _built_walk(core: Core, session: Session, fresh: bool) -> StepWalk:
    """A walk of a built pipeline, from where it began, or from the beginning of a fresh one."""
    pullers: dict[str, Any] = {puller.group.name: puller for puller in session.producer.sources.pullers if puller.kind == "regrouped"}
    groups = [puller.group for puller in pullers.values()]
    planned = {group.name: [part.built() for part in core.processes.streams.of(group)] for group in groups}
    rules = {name: puller.regrouper for name, puller in pullers.items()}
    checkpoint = None if fresh else core.options.checkpoint
    replayed = functools.cache(lambda: replayed_core(core, _options(core, checkpoint), checkpoint))
    walk = walk_of(session, groups, planned, rules, lambda *about: replayed().run_part(*about), fresh)
    if walk.runs:
        walk.close = replayed().close
    return walk


def _walk_to(replayed: ReplayedCore, session: Session, walk: StepWalk, wanted: tuple[int | None, int]) -> Provenance:
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
            _fill(session)
            session.delivery.fetch()
        walked = walk.to(step)
        names = {item.planned.spec.name for item in session.operators}
        positions = {name: position for name, position in session.delivery.mark().positions.items() if name in names}
        walked = walked._replace(at=StepPositions(step, walked.at.epoch, positions, {}))
    else:
        session.start_at({**session.began.positions, **walked.at.operators}, step, walked.at.epoch)
    replayed.give(session, walked.origins)
    return told_of(session, walked)


def _fill(session: Session) -> None:
    """Queue an iteration."""
    session.producer.fill(lambda: None, True)


def _options(core: Core, checkpoint: bytes | None) -> PipelineOptions:
    """The pipeline's options, for one iteration in this process."""
    options = _for_one_step(core.options)
    options.seed = core.seed
    if options.seed is None and checkpoint is None:
        raise RuntimeError("the pipeline has no seed, so its steps are different every time; give it a seed, or a checkpoint of the run")
    return options


def _for_one_step(given: PipelineOptions) -> PipelineOptions:
    options = copy.copy(given)
    options.checkpoint, options.engines, options.max_bad, options.quarantine = None, 0, None, None
    options.prefetch_queue_depth = 1
    options.output_dtype = options.output_ndim = options.output_layout = None
    options.check_for_build()
    return options


def _check_sources(instances: Sequence[Any]) -> None:
    """RuntimeError for data that cannot be had again for a given step."""
    for instance in instances:
        if not instance.schema.calls_python or instance.schema.inputs[1]:
            continue
        group = instance.attachment
        if group is None:
            raise RuntimeError(f"the data of {instance.name!r} comes from feed_input(), so a step cannot be made again")
        if isinstance(group, Regrouping):
            continue  # its parts are checked on their own
        if not group.description.resumable:
            raise RuntimeError(
                f"the source of {instance.name!r} is an {group.description}: it cannot be asked for the data of a given step. Use a "
                "callable with one argument (the position)."
            )


def _begin(session: Session, data: bytes) -> None:
    """Let the session begin at a checkpoint of a pipeline with the same stateful operators. CheckpointError if it does not fit."""
    if dali_checkpoints.is_checkpoint(data):
        saved = dali_checkpoints.parse(data)
        states: Mapping[str, Any] = {name: dali_checkpoints.state_of(name, state) for name, state in saved.operators.items() if state}
        iteration, epoch = saved.iteration, saved.epoch
    else:
        body = checkpoints.decode(data)
        states, iteration, epoch = body["operators"], body["iteration"], body["epoch"]
        here, there = session.saving.describe()["operators"], body["graph"]["operators"]
        names = [name for name in session.stateful if name in here and name in there]
        one, two = ({name: {key: value for key, value in graph[name].items() if key != "in"} for name in names} for graph in (there, here))
        found = checkpoints.differences({"operators": one}, {"operators": two, "outputs": None})
        if found:
            raise CheckpointError("The checkpoint does not fit this pipeline:\n  " + "\n  ".join(found))
    missing = sorted(set(session.stateful) - states.keys())
    if missing:
        raise CheckpointError(f"There's no checkpoint for operator(s) {', '.join(missing)} of this pipeline")
    try:
        positions = {name: item.load(states[name]) for name, item in session.stateful.items()}
    except ValueError as error:
        raise CheckpointError(f"the checkpoint cannot be restored: {error}") from error
    session.began = Mark(positions, EpochPlace(epoch, iteration, {}, "", 0, 0))


def _go_to(session: Session, step: int) -> Provenance:
    """Bring the session to `step`, and return the provenance of the step."""
    from ..provenance.report import Provenance, provenance_at

    told = positions_at(session, step)
    if told.unknown:
        first = session.began.place.iteration
        if not first <= step <= first + MOST_RUNS:
            raise CheckpointError(
                f"{', '.join(told.unknown)}: the positions at step {step} depend on the decisions of all iterations before. Give a "
                f"checkpoint of the last {MOST_RUNS} steps before."
            )
        session.start_at(session.began.positions, first, session.began.place.epoch)
        for _ in range(step - first):
            session.producer.fill(lambda: None, True)
            session.delivery.fetch()
        names = {item.planned.spec.name for item in session.operators}
        positions = {name: position for name, position in session.delivery.mark().positions.items() if name in names}
        samples = int(session.options.batch_size)
        return Provenance(session, StepPositions(step, told.epoch, positions, {}), samples, (0, samples))
    session.start_at({**session.began.positions, **told.operators}, step, told.epoch)
    return provenance_at(session, step)


def _bad(session: Session, told: Provenance) -> dict[int, list[str]]:
    """The errors of bad samples of the step, by place."""
    found: dict[int, list[str]] = {}
    for entry in () if session.repairs is None else session.repairs.quarantine.entries():
        if not entry.reader:  # data from Python, which this session has asked for once
            found.setdefault(entry.sample, []).append(f"{entry.operator}: {entry.error}. Another sample of the batch is in its place.")
            continue
        for place in told.bad[entry.reader]:
            if int(told.readers[entry.reader].numbers[place]) == entry.index:
                found.setdefault(place, []).append(f"{entry.operator}: {entry.error}")
    return found


def _sources_of_edges(plan: Plan) -> dict[int, int]:
    """Each edge, and the edge with the same data that an operator has made, which is another one behind copies between devices."""
    sources: dict[int, int] = {}
    for planned in plan.operators:
        for edge in planned.outputs:
            sources[edge] = sources[planned.inputs[0]] if planned.is_transfer else edge
    return sources


def _operators(plan: Plan, tensors: Sequence[Any], sources: Mapping[int, int]) -> list[ReplayedOperator]:
    """The operators in the order of the plan, with their outputs."""
    values = dict(zip(plan.outputs, tensors, strict=True))
    rows: dict[int, Sequence[int]] = {}
    found = []
    for planned in plan.operators:
        reads = [sources[edge] for edge in (*planned.inputs, *planned.arguments.values())]
        if planned.is_transfer or not all(edge in values for edge in planned.outputs):
            continue
        spec = planned.spec
        outputs = [values[edge] for edge in planned.outputs]
        rows.update(zip(planned.outputs, _rows(planned, reads, outputs, values, rows, len(tensors[0])), strict=True))
        places = [rows[edge] for edge in planned.outputs]
        found.append(ReplayedOperator(spec.name, spec.schema.name, spec.device, planned, outputs, reads, places))
    return found


def _rows(
    planned: PlannedOperator, reads: Sequence[int], outputs: Sequence[Any], values: Mapping[int, Any], rows: Mapping[int, Sequence[int]],
    count: int,
) -> list[Sequence[int]]:  # fmt: skip
    """For each output: the samples of the batch that its samples belong to. Branches of conditionals have a part of the batch."""
    role = planned.spec.schema.role
    whole: Sequence[int] = range(count)
    if role is Role.SPLIT:
        data, condition = rows.get(reads[0], whole), _host(values[reads[-1]])
        numbers = [np.asarray(condition.at(k)).reshape(()).item() for k in range(len(condition))]
        by_index = "count" in planned.spec.constants
        chosen = [int(number) if by_index else 1 - bool(number) for number in numbers]
        made: list[Sequence[int]] = [[row for row, which in zip(data, chosen) if which == part] for part in range(len(outputs))]
    else:
        leader = reads[-1:] if role is Role.MERGE else reads[:1]
        made = [rows.get(leader[0], whole) if leader else whole for _ in outputs]
    return [known if len(known) == len(one) else range(len(one)) if len(one) == count else () for known, one in zip(made, outputs)]


def _host(tensors: Any) -> Any:
    return tensors.as_cpu() if hasattr(tensors, "as_cpu") else tensors
