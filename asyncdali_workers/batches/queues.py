"""Tasks that wait for workers: the rings in shared memory, and the tasks that do not fit into the rings yet.

It runs on any thread that calls the pool, with the pool's lock held. Workers take tasks from the rings at the same time.
"""

from __future__ import annotations

import os
from collections import deque

from ..interrupts import uninterrupted
from ..shared.control import Ring
from ..shared.records import Task


class Queues:
    def __init__(self, rings: list[Ring]):
        self._rings = rings
        self._backlog: dict[int, deque[Task]] = {ring.number: deque() for ring in rings}

    def put(self, ring: Ring, tasks: list[Task]) -> None:
        """Add tasks for workers, behind the waiting ones."""
        backlog = self._backlog[ring.number]
        if backlog or ring.room(len(tasks)) < len(tasks):
            backlog.extend(tasks)
            return
        for place, task in enumerate(tasks):
            ring.write(place, task)
        try:
            ring.publish(len(tasks))
        finally:
            os.eventfd_write(ring.tokens, len(tasks))  # an extra token has no effect

    def flush(self) -> None:
        """Fill rings that have room again."""
        for number, backlog in self._backlog.items():
            ring = self._rings[number]
            while backlog and ring.room(1):
                with uninterrupted():  # tasks must be published once
                    ring.write(0, backlog.popleft())
                    ring.publish(1)
                    os.eventfd_write(ring.tokens, 1)

    def withdraw(self, number: int, tasks: range) -> set[int]:
        """Withdraw the given tasks that no worker has taken, and return them."""
        backlog = self._backlog[number]
        dropped = {task.task for task in backlog if task.task in tasks}
        if dropped:
            self._backlog[number] = deque(task for task in backlog if task.task not in dropped)
        return dropped | self._rings[number].withdraw(tasks)

    def wake(self, number: int) -> None:
        """Add a token for each task in a ring, because a dead worker may have taken tokens with it."""
        ring = self._rings[number]
        os.eventfd_write(ring.tokens, max(1, ring.tail - ring.head))

    def was_taken(self, number: int, sequence: int) -> bool:
        """Whether the head of a ring has passed this entry."""
        ring = self._rings[number]
        with ring.locked():
            return sequence < ring.head
