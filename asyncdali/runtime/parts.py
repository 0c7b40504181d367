"""Parts of an iteration: the samples that one of several consumers gets.

Positions are pure, so a reader or a draw makes the samples a to b of an iteration without the others. The positions of a pipeline that
makes a part move on as if it made all samples: checkpoints are the same for every part, and the same as without parts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..graph.plan import Plan
from ..operators.base import Role

if TYPE_CHECKING:
    from .order.record import Record


class Part(NamedTuple):
    """The part of each iteration that rank `rank` of `ranks` ranks gets: a fixed slice of its samples.

    The slices of all ranks, one after another, are the iteration. They differ by one sample at most.
    """

    rank: int
    ranks: int

    def of(self, samples: int) -> tuple[int, int]:
        """Index of the first sample of the part, and index after its last sample, in an iteration of `samples` samples."""
        return samples * self.rank // self.ranks, samples * (self.rank + 1) // self.ranks

    def apply(self, record: Record, samples: int, whole: bool) -> None:
        """Make `record`, an iteration of `samples` samples, one of this part. May be repeated.

        `whole`: all samples are made, and the part is cut out of the outputs.
        """
        first, stop = self.of(samples)
        record.whole, record.first, record.batch_size = 0, 0, samples
        if whole or not samples:
            record.handed = first, stop
            return
        if first == stop:  # nothing for this rank: compute one sample for its type, rank and layout, and return no sample
            record.handed = 0, 0
            first = min(first, samples - 1)
            stop = first + 1
        if stop - first < samples:
            record.whole, record.first, record.batch_size = samples, first, stop - first


def why_whole(plan: Plan) -> str:
    """Why no part of an iteration of this graph can be made alone: the operator, and its reason. Empty: parts can be made."""
    branched: set[int] = set()
    for planned in plan.operators:
        reason = planned.kind.why_whole(planned.spec)
        edges = [*planned.inputs, *planned.arguments.values()]
        if planned.spec.schema.role is Role.SPLIT or not branched.isdisjoint(edges):
            branched.update(planned.outputs)
            if planned.kind.stateful:
                reason = "in a branch of a conditional the draws depend on the samples before"
        if reason:
            return f"`{planned.spec.schema.name}` (name {planned.spec.name!r}): {reason}"
    return ""
