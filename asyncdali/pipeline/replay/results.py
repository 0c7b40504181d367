"""The contents of a replayed step: its operators with their outputs, and the errors of its bad samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...operators.base import Role
from ...provenance.replayed import ReplayedOperator

if TYPE_CHECKING:
    from ...graph.plan import Plan, PlannedOperator
    from ...provenance.report import Provenance
    from ...runtime.session import Session


def bad_samples(session: Session, told: Provenance) -> dict[int, list[str]]:
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


def sources_of_edges(plan: Plan) -> dict[int, int]:
    """Each edge, and the edge with the same data that an operator has made, which is another one behind copies between devices."""
    sources: dict[int, int] = {}
    for planned in plan.operators:
        for edge in planned.outputs:
            sources[edge] = sources[planned.inputs[0]] if planned.is_transfer else edge
    return sources


def operators_of(plan: Plan, tensors: Sequence[Any], sources: Mapping[int, int]) -> list[ReplayedOperator]:
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
