"""Readers scan the heads of files for decoders, while the bytes are in the cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...operators.base import Operator, Trait

if TYPE_CHECKING:
    from ..plan import PlannedOperator


def mark_scans(made: Sequence[tuple[PlannedOperator, Operator]]) -> None:
    """Set ``Neighbours.head_scan`` of readers of files. Of several consumers with different scans the first decides."""
    readers = {planned.outputs[0]: planned.neighbours for planned, _ in made if Trait.SCANS_HEADS in planned.kind.traits}
    for planned, operator in made:
        reader = readers.get(planned.inputs[0]) if planned.inputs else None
        if reader is not None and reader.head_scan is None:
            reader.head_scan = operator.wanted_scan()
