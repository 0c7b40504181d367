"""Readers leave out the contents of files whose pictures are in the caches of all consumers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..plan import PlannedOperator


def mark_kept(operators: Sequence[PlannedOperator], outputs: Sequence[int]) -> None:
    """Set ``Neighbours.kept_by`` of operators whose first output is read only by operators that keep their results."""
    readers: dict[int, list[PlannedOperator]] = {}
    others = set(outputs)
    for planned in operators:
        others.update(planned.inputs[1:], planned.arguments.values())
        if planned.inputs:
            readers.setdefault(planned.inputs[0], []).append(planned)
    for planned in operators:
        found = readers.get(planned.outputs[0], []) if planned.outputs and planned.outputs[0] not in others else []
        if found and all(reader.kind.keeps_results(reader.spec) for reader in found):
            planned.neighbours.kept_by = len(found)
