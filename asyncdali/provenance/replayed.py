"""A step that was made again: the values of every operator, and where they come from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..graph.plan import Plan, PlannedOperator
    from .report import Provenance


@dataclass(frozen=True)
class ReplayedOperator:
    """One operator: its name, public name and device, its place in the plan, its outputs (tensor lists), and the edges that it reads."""

    name: str
    kind: str
    device: str
    planned: PlannedOperator
    outputs: Sequence[Any]
    reads: Sequence[int]


@dataclass(frozen=True)
class ReplayedStep:
    """One step.

    Attributes:
        provenance: of its samples.
        names: of the pipeline's outputs.
        outputs: tensor lists; none if the step has an error.
        operators: in the order of the plan.
        plan: of the pipeline, for its drawing.
        error: the error of the iteration; "" if there is none.
        seed: of the pipeline.
    """

    provenance: Provenance
    names: list[str]
    outputs: Sequence[Any]
    operators: Sequence[ReplayedOperator]
    plan: Plan
    error: str
    seed: int
