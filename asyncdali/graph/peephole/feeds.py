"""A decoder hands rows or windows to its only consumer while they are computed (``operators.row_feeds``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...operators.base import Trait

if TYPE_CHECKING:
    from ..plan import PlannedOperator, Segment


def mark_feeds(segment: Segment) -> None:
    """Set ``Neighbours.feeds`` of operators whose output is read by one operator of the segment alone, which may use a feed."""
    readers: dict[int, list[PlannedOperator]] = {}
    for planned in segment.operators:
        for edge in [*planned.inputs, *planned.arguments.values()]:
            readers.setdefault(edge, []).append(planned)
    for planned in segment.operators:
        if Trait.FEEDS in planned.kind.traits:
            (edge,) = planned.outputs
            found = readers.get(edge, [])
            alone = edge not in segment.consumed_outside and len(found) == 1
            planned.neighbours.feeds = alone and Trait.TAKES_FEED in found[0].kind.traits and found[0].inputs[:1] == [edge]
