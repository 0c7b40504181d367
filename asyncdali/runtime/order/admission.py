"""Iterations from the call that queues them until they are done.

An iteration is queued by a thread of the user and admitted in a decision, in order. From then on it is in progress.
"""

from __future__ import annotations

from collections import deque

from .record import Record


class Admission:
    """The queue of iterations, and those in progress. Changed in decisions only, except for :meth:`queue`."""

    def __init__(self) -> None:
        self._queued: deque[Record] = deque()
        self._open: deque[Record] = deque()
        self._admitted = 0

    def queue(self, record: Record) -> None:
        """Queue an iteration. The same record may be queued twice."""
        self._queued.append(record)

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

    def leave(self, record: Record) -> None:
        """The iteration is done."""
        self._open.remove(record)

    def unfinished(self) -> list[Record]:
        """All iterations that callers may wait for."""
        return [*self._open, *self._queued]
