"""The workers' processes: start, death and replacement.

It runs with the pool's lock held: `begin` and `all_ready` on the thread that starts the pool, `attend` on the thread that waits for a
batch. The pidfd of a process reports its death. The exit status may come later, from the launcher's helper.
"""

from __future__ import annotations

import select
import time

from ..batches.tickets import Ticket
from ..errors import WorkerDied, decode_exception
from ..interrupts import uninterrupted
from ..parts import Parts
from ..shared.control import RESTARTS
from .launch import FAILED_STARTS, Born, Ended, Launcher, News, Unavailable
from .losses import Losses
from .members import Member, manner_of_death

LONGEST_PAUSE = 60.0
"""Longest time in seconds between two attempts to replace a worker while other workers do the work."""


class WorkerProcesses:
    """replacing: the start is over, and dead workers are replaced from now on."""

    def __init__(self, name: str, parts: Parts, launcher: Launcher, losses: Losses):
        self._name, self._launcher, self._losses = name, launcher, losses
        self._members, self._descriptors, self._poll = parts.members, parts.descriptors, parts.channels.poll
        self._outstanding, self._positions = parts.outstanding, parts.positions
        self._dying: dict[int, Member] = {}  # process id -> worker whose exit status has not arrived yet
        self._statuses: dict[int, int] = {}  # exit statuses that arrived before the death was noticed
        self._watched: int | None = None
        self.replacing = False

    # ---------------------------------------------------------------------------------------------------------------- start

    def begin(self) -> None:
        """Start the first workers. They report when they are ready."""
        self._launcher.prepare()
        self._watch_launcher()
        for member in self._members:
            born = self._launcher.start(member.index)
            if born is not None:
                self._welcome(born)

    def all_ready(self) -> bool:
        """Raises the reason if one worker cannot start."""
        if all(member.ready for member in self._members):
            return True
        failed = next((member for member in self._members if member.failures), None)
        if failed is not None:
            raise self._start_error(failed)
        unavailable = next((member.gone for member in self._members if member.gone), None)
        if unavailable is not None:
            reported = next((member for member in self._members if member.reported), None)
            if reported is not None:
                raise self._start_error(reported)
            raise WorkerDied(f"{self._name} cannot start: {unavailable}")
        return False

    def _start_error(self, member: Member) -> BaseException:
        what = f"worker {member.index} of {self._name} could not start"
        if member.reported:
            return decode_exception(member.reported, f"{what}; ")
        return WorkerDied(f"{what}: the process {member.gone}")

    # ----------------------------------------------------------------------------------------------------------------- events

    def attend(self, descriptor: int) -> None:
        """A descriptor is readable: the launcher's, or the pidfd of a worker."""
        if descriptor == self._launcher.descriptor:
            with uninterrupted():  # each message arrives once
                self._hear(self._launcher.collect())
                self._watch_launcher()
        else:
            self._notice_death(descriptor)

    def _watch_launcher(self) -> None:
        """The helper's socket changes when the helper was replaced."""
        now = self._launcher.descriptor
        if now == self._watched:
            return
        if self._watched is not None:
            self._poll.unregister(self._watched)
        self._watched = now
        if now is not None:
            self._poll.register(now, select.POLLIN)

    def _hear(self, news: list[News]) -> None:
        for item in news:
            if isinstance(item, Born):
                self._welcome(item)
            elif isinstance(item, Ended):
                member = self._dying.pop(item.pid, None)
                if member is None:
                    self._statuses[item.pid] = item.status
                else:
                    self._bury(member, item.status)
            elif isinstance(item, Unavailable):
                for member in self._members:
                    if not member.alive:
                        member.vacant = False
                        self._give_up(member, item.reason)

    def _welcome(self, born: Born) -> None:
        member = self._members[born.worker]
        member.pid, member.pidfd, member.alive = born.pid, born.pidfd, True  # `ready` may already be set, so it is not reset here
        self._poll.register(born.pidfd, select.POLLIN)

    # --------------------------------------------------------------------------------------------------------------- deaths

    def _notice_death(self, pidfd: int) -> None:
        member = next((member for member in self._members if member.alive and member.pidfd == pidfd), None)
        if member is None or member.pid in self._dying:
            return
        with uninterrupted():
            self._poll.unregister(pidfd)
            status = self._statuses.pop(member.pid, None)
            if status is None:
                status = self._launcher.status(member.pid)
            if status is None:
                self._dying[member.pid] = member
            else:
                self._bury(member, status)

    def _bury(self, member: Member, status: int) -> None:
        """A worker is dead: recover its work and memory, and request a replacement."""
        with uninterrupted():
            self._descriptors.close(member.pidfd)
            member.alive, member.pidfd = False, -1
            manner = manner_of_death(status)
            self._losses.take_up(member, manner)
            member.failures += not member.ready
            member.ready = False
            if not self.replacing and member.failures:
                member.gone = manner
                return
            self._replace(member, manner)

    def _replace(self, member: Member, manner: str) -> None:
        if member.failures >= FAILED_STARTS:
            self._vacate(member, f"worker {member.index} {manner} before it was ready, {member.failures} times in a row")
            return
        member.incarnation += 1
        member.block[RESTARTS] += 1
        member.reported = b""
        try:
            self._launcher.replace(member.index, member.incarnation)
            self._hear(self._launcher.collect())
            self._watch_launcher()
        except Exception as error:
            self._vacate(member, f"worker {member.index} {manner} and cannot be replaced: {type(error).__name__}: {error}")

    def _vacate(self, member: Member, reason: str) -> None:
        """Make no further attempts for the current tasks. Later tasks may try again, because the cause of death may be over by then."""
        member.tries += 1
        member.vacant, member.retry_at = True, time.monotonic() + min(2.0**member.tries, LONGEST_PAUSE)
        self._give_up(member, reason)

    def fill_vacancies(self, urgent: bool) -> None:
        """Try again to replace workers whose replacement failed. Not `urgent`: only if the last attempt was some time ago."""
        now = time.monotonic()
        for member in self._members:
            if member.vacant and (urgent or now >= member.retry_at):
                with uninterrupted():
                    member.gone, member.vacant = None, False
                    member.failures = FAILED_STARTS - 1
                    self._replace(member, "ended")

    def _give_up(self, member: Member, reason: str) -> None:
        """This worker is not replaced."""
        member.gone = reason
        for ticket in list(self._outstanding.tickets.values()):
            hopeless = self.hopeless(ticket)
            if hopeless is not None:
                self._outstanding.fail(ticket, hopeless)

    def hopeless(self, ticket: Ticket) -> str | None:
        """The reason why no worker will ever run this source."""
        if ticket.source.dedicated:
            lost = self._positions.lost.get(ticket.source_index)
            if lost is not None:
                return lost
            home = self._members[self._positions.homes[ticket.source_index]]
            return f"{ticket.source.name}: {home.gone}" if home.gone else None
        if all(member.gone for member in self._members):
            return f"{self._name} has no worker left: {self._members[0].gone}"
        return None

    def forget(self, member: Member) -> None:
        """A worker ended with the pool: reap it, if this process is its parent. Runs on the closing thread."""
        if member.pid not in self._dying:
            self._launcher.status(member.pid)
        member.alive = False
