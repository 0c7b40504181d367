"""Where a replayed session begins: a fresh pipeline, or a checkpoint; and how it comes to a step of a pipeline without regroupings."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ... import checkpoint as checkpoints
from ...dali_files import checkpoints as dali_checkpoints
from ...errors import CheckpointError
from ...provenance.positions import StepPositions, positions_at
from ...regrouping.regrouping import Regrouping
from ...runtime.order.delivery import Mark
from ...runtime.order.producer import EpochPlace

if TYPE_CHECKING:
    from ...options import PipelineOptions
    from ...provenance.report import Provenance
    from ...runtime.session import Session
    from ..core import Core

MOST_RUNS = 1000
"""If decisions of conditionals determine positions, at most this number of steps is run to find them."""


def options_of_step(core: Core, checkpoint: bytes | None) -> PipelineOptions:
    """The pipeline's options, for one iteration in this process."""
    options = for_one_step(core.options)
    options.seed = core.seed
    if options.seed is None and checkpoint is None:
        raise RuntimeError("the pipeline has no seed, so its steps are different every time; give it a seed, or a checkpoint of the run")
    return options


def for_one_step(given: PipelineOptions) -> PipelineOptions:
    options = copy.copy(given)
    options.checkpoint, options.engines, options.max_bad, options.quarantine = None, 0, None, None
    options.prefetch_queue_depth = 1
    options.output_dtype = options.output_ndim = options.output_layout = None
    options.check_for_build()
    return options


def check_sources(instances: Sequence[Any]) -> None:
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


def start_of(session: Session) -> Mark:
    """The beginning of a fresh pipeline."""
    return Mark({item.planned.spec.name: item.operator.start for item in session.operators if item.operator.stateful}, EpochPlace(0, 0, {}))


def check_epoch(session: Session, epoch: int | None) -> None:
    """ValueError for another epoch than that of the checkpoint, in a pipeline without regroupings."""
    if epoch is not None and epoch != session.began.place.epoch:
        raise ValueError(
            f"epoch {epoch}: only epochs of select, mix and batch_by can be chosen. Readers count steps over all epochs, and the number of "
            "steps of a Python source is not known; give a checkpoint of that epoch"
        )


def begin_at(session: Session, data: bytes) -> None:
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


def go_to(session: Session, step: int) -> Provenance:
    """Bring the session to `step`, and return the provenance of the step."""
    from ...provenance.report import Provenance, provenance_at

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


def fill(session: Session) -> None:
    """Queue an iteration."""
    session.producer.fill(lambda: None, True)
