"""The two sides of a comparison: checkpoints, stored graphs and pipelines, described in the same way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import checkpoint as checkpoints

if TYPE_CHECKING:
    from ..graph.node import OperatorInstance
    from ..graph.plan import Plan
    from ..options import PipelineOptions
    from ..readers.base import ReaderOperator
    from ..runtime.session import Session
    from .report import Provenance

COMPARED_OPTIONS = ("batch_size", "seed", "enable_checkpointing", "on_error", "replace_from")
"""Options of a pipeline that its stream depends on. `enable_checkpointing` changes the order of ``shuffle_after_epoch``, as in DALI."""


@dataclass
class Side:
    """One of two things to compare.

    Attributes:
        label: its name in texts.
        graph: as checkpoints describe it (``checkpoint.describe_graph``).
        whole: the same with all arguments and seeds; None for a checkpoint, which does not have these.
        options: those in COMPARED_OPTIONS.
        positions: of a checkpoint: saved positions by operator; None otherwise.
        step, epoch: of a checkpoint: number of iterations in the epoch, and the epoch.
        session: the built pipeline, if there is one.
        reason: why there is none.
        code: of a built pipeline: descriptions of functions and objects that operators and sources have, by path.
        digest: of a built pipeline: the digest of the outputs of a step. It runs the step.
        told: of a built pipeline with select, mix or batch_by: the provenance of a step.
    """

    label: str
    graph: dict[str, Any]
    whole: dict[str, Any] | None = None
    options: dict[str, Any] = field(default_factory=dict)
    positions: Mapping[str, Any] | None = None
    step: int = 0
    epoch: int = 0
    session: Session | None = None
    reason: str = ""
    code: Mapping[str, str] = field(default_factory=dict)
    digest: Callable[[int], str] | None = None
    told: Callable[[int], Provenance] | None = None


def checkpoint_side(label: str, data: object) -> Side:
    """The side of a checkpoint. CheckpointError if the data is none."""
    body = checkpoints.decode(data)
    side = Side(label, body["graph"], positions=body["operators"], step=body["iteration"], epoch=body["epoch"])
    side.reason = "a checkpoint has no files and no arguments; compare it with the pipeline"
    return side


def session_side(label: str, session: Session, instances: Sequence[OperatorInstance]) -> Side:
    """The side of a built pipeline with the operators `instances`."""
    graph = session.saving.describe()
    return Side(label, graph, _with_parts(session, instances), _options(session.options), session=session)


def regrouped(session: Session) -> list[tuple[Any, list[Session]]]:
    """The select, mix and batch_by of a pipeline (``regrouping.regrouping.Regrouping``), each with the sessions of its parts."""
    pullers: Sequence[Any] = session.producer.sources.pullers
    return [(puller.group, [part.session for part in puller.parts]) for puller in pullers if puller.kind == "regrouped"]


def sessions(session: Session) -> list[Session]:
    """A session, and those of all parts before it."""
    return [session, *(one for _, parts in regrouped(session) for part in parts for one in sessions(part))]


def readers(session: Session) -> dict[str, ReaderOperator]:
    """The readers of a pipeline and of its parts, by name."""
    return {name: reader for one in sessions(session) for name, reader in one.readers().items()}


def _with_parts(session: Session, instances: Sequence[OperatorInstance]) -> dict[str, Any]:
    """:func:`_whole` of a pipeline and of its parts, whose operators have names of their own."""
    whole = _whole(session.saving.describe(), session.plan, instances)
    before: dict[str, Any] = {}
    for group, parts in regrouped(session):
        wiring = []
        for number, (part, declared) in enumerate(zip(parts, group.parts, strict=True)):
            own = _with_parts(part, declared.definition.instances)
            before.update(own["operators"])
            wiring += [f"part {number}={source}" for source in own["outputs"]]
        for name in (name for name in group.nodes if name in whole["operators"]):
            entry = whole["operators"][name]
            entry.pop("parts", None)
            entry["in"] = wiring
            shares = getattr(group.regrouper.start, "shares", None)
            if shares is not None:
                entry["args"]["weights (in thousandths)"] = list(shares)
    return {"operators": {**before, **whole["operators"]}, "outputs": whole["outputs"]}


def plan_side(label: str, plan: Plan, instances: Sequence[OperatorInstance], options: PipelineOptions, reason: str) -> Side:
    """The side of a graph that cannot be built for `reason`."""
    graph = checkpoints.describe_graph(plan, {})
    return Side(label, graph, _whole(graph, plan, instances), _options(options), reason=reason)


def _options(options: PipelineOptions) -> dict[str, object]:
    return {name: getattr(options, name) for name in COMPARED_OPTIONS}


def _whole(graph: dict[str, Any], plan: Plan, instances: Sequence[OperatorInstance]) -> dict[str, Any]:
    """The description with the arguments that were given, and the seeds."""
    given = {instance.name: instance.seed for instance in instances if instance.seed is not None}
    operators = {}
    for planned in plan.operators:
        spec = planned.spec
        if spec.name not in graph["operators"]:
            continue
        arguments = {
            name: _shown(value) for name, value in spec.constants.items() if name not in ("eager", "preserve") and _is_data(value)
        }
        if spec.name in given:
            arguments["seed"] = given[spec.name]
        elif spec.seed is not None:
            arguments["seed (automatic)"] = spec.seed
        if spec.device != "cpu":
            arguments["device"] = spec.device
        operators[spec.name] = {**graph["operators"][spec.name], "args": arguments}
    return {"operators": operators, "outputs": graph["outputs"]}


def _shown(value: object) -> object:
    """A value as JSON data that tells different values apart."""
    if isinstance(value, np.ndarray):
        return [str(value.dtype), value.tolist()]
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, (list, tuple)):
        return [_shown(item) for item in value]
    return value if isinstance(value, (bool, int, float, str)) else str(value)


def _is_data(value: object) -> bool:
    """Whether a value is data that texts tell apart. Functions and objects are compared by `Side.code`."""
    if isinstance(value, (list, tuple)):
        return all(map(_is_data, value))
    return value is None or isinstance(value, (bool, int, float, str, bytes, Enum, np.ndarray, np.generic))
