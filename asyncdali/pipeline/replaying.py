"""Makes one step of a pipeline again, with the results of all operators, without running the steps before.

A second session of the same graph returns the outputs of every operator. Positions say where it begins. The pipeline itself is not changed.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .. import checkpoint as checkpoints
from ..dali_files import checkpoints as dali_checkpoints
from ..errors import CheckpointError
from ..provenance.positions import StepPositions, positions_at
from ..provenance.replayed import ReplayedOperator, ReplayedStep
from ..regrouping.regrouping import Regrouping
from ..runtime.order.producer import EpochPlace
from ..runtime.session import Mark, Session
from .front import Front, core_of

if TYPE_CHECKING:
    from ..data_node import DataNode
    from ..graph.plan import Plan
    from ..options import PipelineOptions
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
        nodes = [*given, *rest]
        whole = build_plan(given, core.definition.instances, core.definition, lambda k: 0)
        return ReplayedStep(
            told, [node.name for node in given], list(tensors[: len(given)]),
            [] if error else _operators(session.plan, nodes, tensors), whole, error, int(options.seed or 0),
        )  # fmt: skip
    finally:
        session.close()


def _options(core: Core, checkpoint: bytes | None) -> PipelineOptions:
    """The pipeline's options, for one iteration in this process."""
    options = copy.copy(core.options)
    options.seed = core.seed
    if options.seed is None and checkpoint is None:
        raise RuntimeError("the pipeline has no seed, so its steps are different every time; give it a seed, or a checkpoint of the run")
    options.checkpoint, options.engines, options.on_error, options.max_bad, options.quarantine = None, 0, "raise", None, None
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


def _go_to(session: Session, step: int) -> Any:
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


def _operators(plan: Plan, nodes: Sequence[DataNode], tensors: Sequence[Any]) -> list[ReplayedOperator]:
    """The operators in the order of the plan, with their outputs."""
    values = dict(zip(plan.outputs, tensors, strict=True))
    found = []
    for planned in plan.operators:
        if planned.is_transfer or not all(edge in values for edge in planned.outputs):
            continue
        spec = planned.spec
        outputs, reads = [values[edge] for edge in planned.outputs], [*planned.inputs, *planned.arguments.values()]
        found.append(ReplayedOperator(spec.name, spec.schema.name, spec.device, planned, outputs, reads))
    return found
