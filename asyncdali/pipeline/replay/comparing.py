"""Pipelines, stored graphs and checkpoints as the sides of a comparison."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ... import checkpoint as checkpoints
from ...dali_files import checkpoints as dali_checkpoints
from ...errors import CheckpointError
from ...sources.group import Group
from ..front import Front, core_of

if TYPE_CHECKING:
    from ...graph.node import OperatorInstance
    from ...provenance.sides import Side
    from ...runtime.session import Session


def side_of(label: str, what: Any, deserialize: Callable[[bytes], Front]) -> Side:
    """One side of a comparison, from a pipeline, the bytes of a checkpoint, or the bytes of a stored graph. Pipelines are built.

    deserialize  makes a pipeline of a stored graph

    RuntimeError for bytes of another kind.
    """
    from ...provenance.sides import checkpoint_side

    if isinstance(what, Front):
        return _pipeline_side(label, what)
    try:
        checkpoints.decode(what)
    except CheckpointError as not_a_checkpoint:
        try:
            stored = deserialize(what)
        except RuntimeError as error:
            if dali_checkpoints.is_checkpoint(what):
                raise RuntimeError(
                    f"{label} is a checkpoint of DALI, which has no graph. Convert it first: asyncdali import-checkpoint FILE.py:pipeline "
                    f"{label} OUTPUT"
                ) from None
            raise RuntimeError(f"{label} is neither a checkpoint nor a serialized pipeline: {not_a_checkpoint}; {error}") from error
        return _pipeline_side(label, stored)
    return checkpoint_side(label, what)


def _pipeline_side(label: str, pipeline: Front) -> Side:
    from ...graph.plan import build_plan
    from ...provenance.sides import plan_side, session_side
    from .behind import provenance_behind
    from .replaying import replay

    core = core_of(pipeline)
    instances = core.definition.instances
    try:
        session = core.built()
    except (RuntimeError, OSError, ValueError, TypeError) as error:
        plan = build_plan(core.output_nodes(), instances, core.definition, lambda k: 0)
        return plan_side(label, plan, instances, core.options, f"it cannot be built ({error})")
    side = session_side(label, session, instances)
    side.code = _code(session, instances)
    side.digest = lambda step: replay(pipeline, step).digest()
    if core.processes.streams:
        side.told = lambda step: provenance_behind(core, step)
    return side


def _code(session: Session, instances: Sequence[OperatorInstance]) -> dict[str, str]:
    """Descriptions of functions and objects of the user: arguments of operators, and sources."""
    from ...engines.wire.reach import reached_from
    from ...provenance.sides import regrouped, sessions

    used = {planned.spec.name for one in sessions(session) for planned in one.plan.operators}
    whole = list(instances)
    for one in sessions(session):
        whole += [item for group, _ in regrouped(one) for part in group.parts for item in part.definition.instances]
    given = [item for item in whole if item.name in used]
    values: dict[str, object] = {f"{item.name}: {name}": value for item in given for name, value in item.constants.items()}
    groups = {id(item.attachment): item for item in reversed(given) if isinstance(item.attachment, Group)}
    values.update((f"{item.name}: source", item.attachment.callback) for item in groups.values())
    return reached_from(values)
