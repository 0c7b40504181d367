"""Iterations from the call that queues them until they are done.

An iteration is queued by a thread of the user and admitted in a decision, in order. From then on it is in progress.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from ...operators.base import Operator, Trait
from .record import Record

_TOGETHER, _LEAST_IN_FLIGHT = 3, 3
"""Most iterations whose files are read together, and the least number of iterations that are in progress meanwhile."""


class Admission:
    """The queue of iterations, and those in progress. Changed in decisions only, except for :meth:`queue`."""

    def __init__(self) -> None:
        self.together, self._least = 1, 0
        """The number of iterations that are admitted together, while at least so many are in progress; see :attr:`gathers`."""
        self._queued: deque[Record] = deque()
        self._open: deque[Record] = deque()
        self._admitted = 0

    def gather(self, operators: Sequence[Operator], depth: int) -> None:
        """Admit several iterations at a time if a reader reads their files together, and if enough others are in progress meanwhile.

        Reading then takes one job and one wake-up of each worker instead of three, and later iterations are planned with warm caches.
        """
        if any(Trait.READS_TOGETHER in operator.traits and not operator.may_wait for operator in operators):
            needed = max(_LEAST_IN_FLIGHT, *[operator.least_in_flight for operator in operators])
            self.together = max(1, min(_TOGETHER, depth - needed))
            self._least = depth - self.together

    def queue(self, record: Record) -> None:
        """Queue an iteration. The same record may be queued twice."""
        self._queued.append(record)

    @property
    def gathers(self) -> bool:
        """Whether queued iterations are not admitted yet: later ones will be admitted with them.

        If too few iterations are in progress, the end of an iteration admits them. So each caller gets its iteration.
        """
        return len(self._queued) < self.together and len(self._open) >= self._least

    def next(self) -> Record | None:
        """Take the oldest queued iteration. None: the queue is empty."""
        return self._queued.popleft() if self._queued else None

    def enter(self, record: Record) -> bool:
        """The iteration is in progress from now on. Returns False if it is already, or was."""
        if record.index != self._admitted:
            return False
        self._admitted += 1
        self._open.append(record)
        return True

    def leave(self, record: Record) -> bool:
        """The iteration is done. Returns whether queued iterations are to be admitted now, because no later call may come."""
        self._open.remove(record)
        return self.together > 1 and bool(self._queued) and not self.gathers

    def following(self, record: Record) -> int:
        """Number of later iterations that are admitted. Their positions follow, because no iteration fails to be planned."""
        return self._admitted - record.index - 1 if self.together > 1 else 0

    def unfinished(self) -> list[Record]:
        """All iterations that callers may wait for."""
        return [*self._open, *self._queued]
