"""Processes the messages of workers: answers to tasks, and reports of their start.

It runs on the thread that reads the pipe, with the pool's lock held. Processing a record twice has no further effect.
"""

from __future__ import annotations

import os
from functools import partial

from ..errors import retelling
from ..exceptions import described
from ..interrupts import uninterrupted
from ..parts import Parts
from ..shared.records import FAILED, OK, READY, SLICES, Done
from ..worker.writing import read_table
from .tickets import SliceOutcome


class AnswerReader:
    def __init__(self, parts: Parts):
        self._memory, self._slots = parts.channels.memory, parts.channels.slots
        self._tickets, self._settle = parts.outstanding.tickets, parts.outstanding.settle
        self._members, self._positions, self._counts = parts.members, parts.positions, parts.counts

    def note(self, done: Done) -> None:
        if done.kind == READY:
            member = self._members[done.worker]
            member.ready, member.failures, member.tries = True, 0, 0
            return
        if done.kind == FAILED:
            self._members[done.worker].reported = read_table(os.pread(self._memory, done.table_size, done.table))[2]
            return
        ticket = self._tickets.get(done.task // SLICES)
        number = done.task % SLICES
        if ticket is None:
            return
        if number in ticket.answers:  # an interrupt has prevented settling this answer before
            self._settle(ticket, number, ticket.answers[number])
            return
        answer = SliceOutcome(done)
        answer.pid = self._members[done.worker].pid  # a dead worker is replaced after its last answers are here
        extents = self._read(answer, done) if done.table else []
        if ticket.source.dedicated:
            self._positions.follow(ticket, answer)
        if not extents:
            self._settle(ticket, number, answer)
            return
        with uninterrupted():  # ownership of memory must move exactly once
            try:
                self._take_over(answer, extents)
            except Exception as error:
                answer.error = partial(retelling, described(error), f"{ticket.source.name}, {ticket.where(0)}: {error}")
            self._settle(ticket, number, answer)

    def _read(self, answer: SliceOutcome, done: Done) -> list[tuple[int, int]]:
        """The slice's table. Returns the extents that the worker allocated."""
        extents, outputs, answer.data = read_table(os.pread(self._memory, done.table_size, done.table))
        if done.kind == OK:
            answer.outputs = outputs
        return extents

    def _take_over(self, answer: SliceOutcome, extents: list[tuple[int, int]]) -> None:
        self._counts.overflows += len(extents)
        for offset, size in extents:
            if size > 0:
                answer.leases.append(self._slots.take_over(offset, size))
            else:
                self._slots.reclaim(offset, -size)
