"""Makes one step of a pipeline again, with the results of all operators, without running the steps before.

A second session of the same graph returns the outputs of every operator. Positions say where it begins. The pipeline itself is not changed.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import checkpoint as checkpoints
from ..dali_files import checkpoints as dali_checkpoints
from ..errors import CheckpointError
from ..operators.base import Role
from ..provenance.positions import StepPositions, positions_at
from ..provenance.replayed import ReplayedOperator, ReplayedStep
from ..regrouping.regrouping import Regrouping
from ..runtime.order.producer import EpochPlace
from ..runtime.session import Mark, Session
from .front import Front, core_of

if TYPE_CHECKING:
    from ..graph.plan import Plan, PlannedOperator
    from ..options import PipelineOptions
    from ..provenance.report import Provenance
    from .core import Core

MOST_RUNS = 1000
"""If decisions of conditionals determine positions, at most this number of steps is run to find them."""


def replay(pipeline: Front, step: int | None = None, checkpoint: bytes | None = None) -> ReplayedStep:
    """The step `step` of the pipeline, counted as ``Pipeline.provenance`` counts. None: that of the checkpoint, or the first one.

    Raises:
        RuntimeError: data comes from the program (``feed_input``, sources that do not take a position, parallel sources).
        CheckpointError: the checkpoint does not fit, or does not lead to this step.
    """
    from ..graph.plan import build_plan, reachable
    from ..runtime.blueprint import Blueprint

    core = core_of(pipeline)
    if checkpoint is None:
        checkpoint = core.options.checkpoint
    given = core.output_nodes()
    instances = reachable(given, core.definition.instances).order
    known = {(id(node.source), node.index, node.device) for node in given}
    rest = [node for item in instances for node in item.outputs if (id(item), node.index, node.device) not in known]
    _check_sources(instances)
    options = _options(core, checkpoint)
    session = Session(Blueprint(options, [*given, *rest], core.definition, core.access, core.calling))
    try:
        if checkpoint is not None:
            _begin(session, checkpoint)
        if step is None:
            step = session.began.place.iteration
        told = _go_to(session, step)
        error = ""
        tensors: Sequence[Any] = ()
        session.producer.fill(lambda: None, True)
        try:
            tensors = session.fetch()
        except StopIteration:
            raise RuntimeError(f"the sources end the epoch before step {step}") from None
        except Exception as failure:
            error = f"{type(failure).__name__}: {failure}"
        whole = build_plan(given, core.definition.instances, core.definition, lambda k: 0)
        sources = _sources_of_edges(session.plan)
        edges = [sources[edge] for edge in session.plan.outputs[: len(given)]]
        dropped = {place for actions in told.bad.values() for place, action in actions.items() if action == "drop"}
        places = [place for place in range(told.samples) if place not in dropped]
        return ReplayedStep(
            told, [node.name for node in given], list(tensors[: len(given)]), edges, places, _bad(session, told),
            [] if error else _operators(session.plan, tensors, sources), whole, error, int(options.seed or 0),
        )  # fmt: skip
    finally:
        session.close()


def _options(core: Core, checkpoint: bytes | None) -> PipelineOptions:
    """The pipeline's options, for one iteration in this process."""
    options = copy.copy(core.options)
    options.seed = core.seed
    if options.seed is None and checkpoint is None:
        raise RuntimeError("the pipeline has no seed, so its steps are different every time; give it a seed, or a checkpoint of the run")
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
            raise RuntimeError(
                f"a step behind fn.{group.operator} ({instance.name!r}) cannot be made again: which samples it has depends on all samples "
                "before. `provenance()` of a batch names them."
            )
        if group.parallel:
            raise RuntimeError(f"the source of {instance.name!r} runs in worker processes; use parallel=False to show a step")
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
        here, there = session.describe()["operators"], body["graph"]["operators"]
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
            session.fetch()
        names = {item.planned.spec.name for item in session.operators}
        positions = {name: position for name, position in session.mark().positions.items() if name in names}
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
