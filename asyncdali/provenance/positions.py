"""The positions of all stateful operators at any step, without running the steps before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import CheckpointError
from ..operators.base import Role

if TYPE_CHECKING:
    from ..graph.plan import Plan
    from ..runtime.session import Session


class EpochHasNoStep(ValueError):
    """The epoch ends before the step."""


@dataclass(frozen=True)
class StepPositions:
    """The state of a pipeline before a step.

    Attributes:
        step: number of the iteration, from 0.
        epoch: number of the epoch, as sources count it.
        operators: positions by the name of the operator.
        unknown: operators without a position, and the reasons.
    """

    step: int
    epoch: int
    operators: Mapping[str, Any]
    unknown: Mapping[str, str]


def positions_at(session: Session, step: int) -> StepPositions:
    """The positions before iteration `step`, which may be past or future. Each iteration is taken to have a full batch.

    A reader with a shuffle buffer takes about a millisecond per epoch the first time. All other positions are formulas.

    Raises:
        ValueError: a negative step.
        CheckpointError: the step is before that of the restored checkpoint, and a fresh pipeline would not lead to that checkpoint.
    """
    if step < 0:
        raise ValueError(f"the step is {step}; steps are counted from 0")
    began = session.began
    first, epoch, positions = began.place.iteration, began.place.epoch, began.positions
    operators = {item.planned.spec.name: item.operator for item in session.operators if item.operator.stateful}
    samples = int(session.options.batch_size)
    if step < first:
        fresh = {name: operator.start for name, operator in operators.items()}
        other = [name for name in operators if operators[name].moved(fresh[name], first, samples) != positions[name]]
        if other or epoch:
            where = f"of epoch {epoch} " if epoch else ""
            raise CheckpointError(
                f"step {step} is before step {first} {where}of the restored checkpoint, and cannot be computed from it. A fresh pipeline "
                f"would come to other positions there ({', '.join(other) or 'sources have ended epochs'}). Restore an earlier checkpoint, "
                "or make the pipeline with the seed of the run."
            )
        first, positions = 0, fresh
    by_data = counted_by_data(session.plan) if step != first else set()
    unknown = {name: "its position depends on the decisions of all iterations before" for name in operators if name in by_data}
    moved = {
        name: operator.moved(positions[name], step - first, samples) for name, operator in operators.items() if name not in unknown
    }
    return StepPositions(step, epoch, moved, unknown)


def counted_by_data(plan: Plan) -> set[str]:
    """Stateful operators in branches of conditionals: decisions tell how many samples they get."""
    divided: set[int] = set()
    found = set()
    for planned in plan.operators:
        edges = [*planned.inputs, *planned.arguments.values()]
        leader = edges[:1]  # it decides the number of samples
        role = planned.spec.schema.role
        if role is Role.SPLIT or (role is not Role.MERGE and not divided.isdisjoint(leader)):
            divided.update(planned.outputs)
            if planned.kind.stateful:
                found.add(planned.spec.name)
        elif role is Role.MERGE and not divided.isdisjoint(planned.arguments.values()):
            divided.update(planned.outputs)  # a branch inside a branch: the predicate has the samples of the outer branch
    return found
