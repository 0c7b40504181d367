"""Recovers the work and the memory of a dead worker: a slice that it had taken, memory, and streams.

It runs on the thread that noticed the death, with the pool's lock held and interrupts delayed.
"""

from __future__ import annotations

from functools import partial

from ..arguments import Settings
from ..batches.landing import Landing
from ..batches.tickets import SliceOutcome, Ticket
from ..errors import WorkerDied, WorkerTimeout
from ..parts import Parts
from ..shared.control import RING, SAMPLE, SEQUENCE, TASK_ID
from ..shared.records import SLICES
from .members import Member


class Losses:
    def __init__(self, parts: Parts, landing: Landing, settings: Settings):
        self._members, self._channels, self._queues = parts.members, parts.channels, parts.queues
        self._outstanding, self._positions, self._counts = parts.outstanding, parts.positions, parts.counts
        self._landing = landing
        self._timeout, self._max_retries = settings.worker_timeout, settings.max_retries

    def take_up(self, member: Member, manner: str) -> None:
        """Read its last answers, take its memory back, move its streams, and give its slice to another worker."""
        ticket, place = self._unfinished(member)
        for extent in member.extents():
            self._channels.slots.reclaim(*extent)
        sample = member.block[SAMPLE]
        timed_out = member.condemned != 0 and ticket is not None and ticket.tasks[place].task == member.condemned
        member.clear()
        self._prepare_streams(member, manner)
        if ticket is not None:
            self._retry(ticket, place, sample, member, manner, timed_out)
        for number in {0, self._channels.ring_of.get(member.index, 0)}:
            self._queues.wake(number)
        member.condemned = 0

    def _unfinished(self, member: Member) -> tuple[Ticket | None, int]:
        """The slice that a dead worker had taken and not answered."""
        block = member.block
        task = block[TASK_ID]
        taken = task != 0 and self._queues.was_taken(block[RING], block[SEQUENCE])
        # The worker may have died between the two steps of taking a task. Then another worker takes the task. It claims the task before it
        # moves the ring's head, and answers before it clears its claim. The head, the claims and the answers must be read in this order.
        elsewhere = any(other.block[TASK_ID] == task for other in self._members if other is not member)
        self._landing.drain()
        ticket = self._outstanding.tickets.get(task // SLICES)
        if not taken or elsewhere or ticket is None or task % SLICES in ticket.answers:
            return None, 0
        return ticket, task % SLICES

    def _prepare_streams(self, member: Member, manner: str) -> None:
        """Tell the replacement where each stream of this worker continues."""
        for source in self._positions.of(member.index):
            reason = self._positions.prepare(source, self._channels, member, manner)
            if reason is not None:
                self._outstanding.fail_source(source, reason)

    def _retry(self, ticket: Ticket, place: int, sample: int, member: Member, manner: str, timed_out: bool) -> None:
        what = f"{ticket.source.name}, {ticket.where(sample)}"
        settle = self._outstanding.settle
        if timed_out:
            message = (
                f"{what}: the callable took longer than {self._timeout} s (worker_timeout); worker {member.index}, process {member.pid}, "
                f"was killed. Its stack:\n{self._channels.control.stack_text() or '(the worker wrote none)'}"
            )
            settle(ticket, place, SliceOutcome(None, partial(WorkerTimeout, message)))
            return
        if ticket.cancelled:
            settle(ticket, place, None)
            return
        lost = self._positions.lost.get(ticket.source_index) if ticket.source.dedicated else None
        if lost is not None:
            settle(ticket, place, SliceOutcome(None, partial(WorkerDied, lost)))
            return
        condemned_by_another = member.condemned != 0
        deaths = ticket.deaths[sample] = ticket.deaths.get(sample, 0) + (not condemned_by_another)
        if deaths > self._max_retries:
            message = (
                f"{what}: worker {member.index}, process {member.pid}, {manner} while it ran this; so did the others that tried "
                f"({deaths} in all, max_retries={self._max_retries})"
            )
            settle(ticket, place, SliceOutcome(None, partial(WorkerDied, message)))
            return
        self._counts.retries += 1
        ring = self._channels.rings[ticket.ring]
        if ticket.source.dedicated:
            ring.put_back(ticket.tasks[place])
        else:
            self._queues.put(ring, [ticket.tasks[place]])
