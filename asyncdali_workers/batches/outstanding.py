"""The tickets that are not answered yet.

It runs on any thread that calls the pool, with the pool's lock held.
"""

from __future__ import annotations

from functools import partial

from ..errors import WorkerDied
from ..shared.records import SLICES
from .queues import Queues
from .tickets import SliceOutcome, Ticket


class Outstanding:
    """tickets: by number. While a ticket is here, a worker may write to its slot."""

    def __init__(self, tickets: dict[int, Ticket], queues: Queues):
        self.tickets = tickets
        self._queues = queues

    def settle(self, ticket: Ticket, number: int, answer: SliceOutcome | None) -> None:
        """Record the outcome of a slice; None: it was withdrawn. A repeated call has no further effect."""
        ticket.answers[number] = answer
        if ticket.complete:
            self.tickets.pop(ticket.number, None)

    def withdraw(self, ticket: Ticket) -> None:
        """Withdraw the slices that have not begun, of a ticket that is no longer needed."""
        for task in self._queues.withdraw(ticket.ring, ticket.task_range):
            self.settle(ticket, task % SLICES, None)

    def fail(self, ticket: Ticket, reason: str) -> None:
        """Give up the slices that have not begun: the ticket fails with WorkerDied and this reason, unless it was cancelled."""
        for task in self._queues.withdraw(ticket.ring, ticket.task_range):
            self.settle(ticket, task % SLICES, None if ticket.cancelled else SliceOutcome(None, partial(WorkerDied, reason)))

    def fail_source(self, source: int, reason: str) -> None:
        """Fail all tickets of a source that no worker can run any more."""
        for ticket in [ticket for ticket in self.tickets.values() if ticket.source_index == source]:
            self.fail(ticket, reason)
