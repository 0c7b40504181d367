"""Iterations that are planned beside each other, for a consumer that takes those that are finished first.

Usually an iteration is planned when the one before is planned, because operators then have its position. So a file that comes late delays
all iterations behind. Here each iteration in flight has segments of its own (a *lane*), and its position is computed from the number of
samples before it. The operators are shared, because planning changes nothing in them. Lanes are made as they are needed, and used again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...operators.base import Role, Trait
from ..parts import why_whole
from ..work.segments import BuiltOperator, BuiltSegment

if TYPE_CHECKING:
    from ...graph.plan import Plan
    from .record import Record
    from .scheduler import Scheduler


class IterationLanes:
    """The lanes of one executor. Used in decisions only.

    Args:
        segments: of the program.
        make: makes the scheduler of a lane from its segments.
    """

    def __init__(self, segments: Sequence[BuiltSegment], make: Callable[[Sequence[BuiltSegment]], Scheduler]):
        self._segments, self._make = segments, make
        self._stateful = [built for segment in segments for built in segment.stateful]
        self._positions: Mapping[str, Any] | None = None
        self._free: list[Scheduler] = []
        self._used: dict[int, Scheduler] = {}

    def admit(self, record: Record) -> None:
        """Begin an iteration in a free lane. Iterations come in order."""
        if self._positions is None:  # a restored position is set after the executor was loaded
            self._positions = {built.planned.spec.name: built.position for built in self._stateful}
        record.given = before = self._positions
        self._positions = {
            built.planned.spec.name: built.after(before[built.planned.spec.name], record.batch_size) for built in self._stateful
        }  # fmt: skip
        lane = self._free.pop() if self._free else self._make([_copied(segment) for segment in self._segments])
        self._used[record.index] = lane
        lane.begin_at(record.index)
        lane.admit(record)

    def leave(self, record: Record) -> None:
        """The iteration is done."""
        self._free.append(self._used.pop(record.index))


def _copied(segment: BuiltSegment) -> BuiltSegment:
    """A segment with the same operators, and positions and templates of its own."""
    operators = []
    for built in segment.operators:
        own = BuiltOperator(built.planned, built.operator)
        own.counters, own.keeps = built.counters, built.keeps
        operators.append(own)
    made = BuiltSegment(segment.segment, operators)
    made.stream, made.counters = segment.stream, segment.counters
    return made


def why_in_order(plan: Plan, operators: Sequence[BuiltOperator]) -> str:
    """Why iterations of this graph are planned one after another: the operator, and its reason. Empty: they need not be."""
    for built in operators:
        operator, schema = built.operator, built.planned.spec.schema
        acts = Trait.ACTS_OUTSIDE in operator.traits and not operator.stateful
        if operator.in_order or acts or (built.prepares and schema.role is Role.INPUT):
            return f"{built.planned.spec.name!r} makes one iteration after another"
        if built.planned.backend != "cpu":
            return f"{built.planned.spec.name!r} is on a GPU"
    return why_whole(plan)
