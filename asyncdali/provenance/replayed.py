"""A step that was made again: the values of every operator, and where they come from."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from ..graph.plan import Plan, PlannedOperator
    from .report import Provenance


@dataclass(frozen=True)
class ReplayedOperator:
    """One operator.

    Attributes:
        name, kind, device: the name of the instance, the operator's public name, and its device.
        planned: its place in the plan.
        outputs: tensor lists.
        reads: the edges of its inputs.
        rows: for each output, the samples of the batch that its samples belong to.
    """

    name: str
    kind: str
    device: str
    planned: PlannedOperator
    outputs: Sequence[Any]
    reads: Sequence[int]
    rows: Sequence[Sequence[int]]

    def of_sample(self, index: int) -> list[tuple[int, Any, int]]:
        """The outputs that have sample `index` of the batch: number of the output, tensor list, place in the list."""
        found = zip(range(len(self.outputs)), self.outputs, self.rows, strict=True)
        return [(number, one, rows.index(index)) for number, one, rows in found if index in rows]


class RawSample(NamedTuple):
    """A sample of a raw iteration, from which a regrouping has chosen a sample.

    Attributes:
        regrouping: the name of the select, mix or batch_by.
        part: number of its part.
        step: the raw iteration, which was made again.
        place: number of the sample in it.
    """

    regrouping: str
    part: int
    step: ReplayedStep
    place: int


@dataclass(frozen=True)
class ReplayedStep:
    """One step.

    Attributes:
        provenance: of its samples.
        names: of the pipeline's outputs.
        outputs: tensor lists; none if the step has an error.
        edges: of the outputs, as `operators` read them.
        places: of the outputs' samples in the batch that was drawn. Bad samples that are dropped have none.
        bad: texts about bad samples, by place.
        operators: in the order of the plan.
        plan: of the pipeline, for its drawing.
        error: the error of the iteration; "" if there is none.
        seed: of the pipeline.
        parts: the graphs before select, mix and batch_by, with titles.
        before: the raw samples behind a sample of the batch that was drawn, which select, mix or batch_by has chosen. It makes their raw
            iterations again when it is called.
    """

    provenance: Provenance
    names: list[str]
    outputs: Sequence[Any]
    edges: Sequence[int]
    places: Sequence[int]
    bad: Mapping[int, Sequence[str]]
    operators: Sequence[ReplayedOperator]
    plan: Plan
    error: str
    seed: int
    parts: Sequence[tuple[str, Plan]]
    before: Callable[[int], Sequence[RawSample]]

    def digest(self) -> str:
        """A digest of the outputs, or of the error: equal for equal types, layouts, shapes and bytes."""
        return " ".join(map(digest_of, self.outputs)) or self.error


def digest_of(tensors: Any) -> str:
    """A digest of one tensor list: type, layout, shapes and bytes."""
    on_host = tensors.as_cpu() if hasattr(tensors, "as_cpu") else tensors
    made = hashlib.blake2b(repr((on_host.dtype, on_host.layout(), on_host.shape())).encode(), digest_size=12)
    for k in range(len(on_host)):
        made.update(np.ascontiguousarray(on_host.at(k)).tobytes())
    return made.hexdigest()
