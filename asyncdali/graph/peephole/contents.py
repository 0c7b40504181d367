"""Operators compute while planning what an operator of the same segment reads. Otherwise the segment would be cut between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..plan import PlannedOperator


def mark_eager(operators: Sequence[PlannedOperator]) -> None:
    """Set `made_eager` of operators that can compute while planning and whose contents an operator planned with them reads."""
    producer: dict[int, PlannedOperator] = {}
    able: set[int] = set()
    for planned in operators:
        relays = _can_be_eager(planned) or planned.kind.passes_on
        if planned.kind.eager or (relays and all(id(producer[edge]) in able for edge in _sources(planned))):
            able.add(id(planned))
        producer.update(dict.fromkeys(planned.outputs, planned))
    wanted: set[int] = set()
    for planned in reversed(operators):
        if not wanted.isdisjoint(planned.outputs) and id(planned) in able and not planned.kind.eager:
            wanted.update(_sources(planned))
            if _can_be_eager(planned):
                planned.made_eager = True
                planned.spec.constants["eager"] = True
        if planned.kind.barrier or planned.is_transfer:
            continue  # alone in their segment, so their inputs have contents
        wanted.update(edge for edge in planned.reads_contents() if producer[edge].backend == planned.backend)


def _can_be_eager(planned: PlannedOperator) -> bool:
    return "eager" in planned.spec.schema.by_name


def _sources(planned: PlannedOperator) -> list[int]:
    return [*planned.inputs, *planned.arguments.values()]
