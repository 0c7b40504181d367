"""The position of each stream, as far as its worker has answered. A replacement continues from there.

It runs on any thread that calls the pool, with the pool's lock held.
"""

from __future__ import annotations

from typing import Any

from ..channels import Channels
from ..processes.members import Member
from ..shared.control import DISCARD, NEVER, PULLED, STATE, STATE_SIZE, STOPPED
from ..shared.records import OK, STOP
from ..shared.system import PAGE, up
from ..source import Source, restartable
from ..worker.streams import read_snapshot
from .tickets import SliceOutcome, Ticket


class AnsweredPosition:
    def __init__(self, source: Source):
        self.source = source
        self.pulls = 0
        self.snapshot: bytes | None = None
        self.snapshot_pulls = 0
        self.stopped = NEVER
        self.restartable = restartable(source.callback)
        self.lease: Any = None  # keeps the memory from which a replacement reads the snapshot


class Positions:
    """homes: stream source -> its worker, assigned in turn. lost: source -> why the stream cannot continue."""

    def __init__(self, sources: list[Source], workers: int):
        self._positions = {index: AnsweredPosition(source) for index, source in enumerate(sources) if source.dedicated}
        self.homes = {index: number % workers for number, index in enumerate(self._positions)}
        self.lost: dict[int, str] = {}

    def of(self, worker: int) -> list[int]:
        """The streams of a worker."""
        return [source for source, home in self.homes.items() if home == worker]

    def follow(self, ticket: Ticket, answer: SliceOutcome) -> None:
        """A stream has moved."""
        position, done = self._positions[ticket.source_index], answer.done
        assert done is not None
        position.pulls = done.pulls
        position.stopped = ticket.epoch if done.kind == STOP else NEVER
        if done.kind == OK and answer.data:
            position.snapshot, position.snapshot_pulls = read_snapshot(answer.data)[1], done.pulls

    def prepare(self, source: int, channels: Channels, member: Member, manner: str) -> str | None:
        """Tell the replacement of a dead worker where the stream continues. Returns the reason if the stream has just been lost."""
        position, block = self._positions[source], channels.control.streams[source]
        block[STOPPED], block[PULLED] = position.stopped, position.pulls
        if position.snapshot is not None:
            size = len(position.snapshot)
            position.lease = channels.slots.lend(up(size, PAGE))
            extent = position.lease.extent
            extent.schema = 0
            extent.mapping.bytes[:size] = memoryview(position.snapshot)
            block[STATE], block[STATE_SIZE] = extent.offset, size
            block[DISCARD] = position.pulls - position.snapshot_pulls
        elif position.pulls == 0 or position.restartable:
            block[DISCARD] = position.pulls
        elif source not in self.lost:
            asked = position.source
            self.lost[source] = (
                f"{asked.name}: worker {member.index}, process {member.pid}, {manner}, and with it the position in this stream: "
                f"{type(asked.callback).__name__} is an iterator that cannot be started again and has no state_dict(). A list, a "
                f"generator function, or an object with state_dict() and load_state_dict() could continue"
            )
            return self.lost[source]
        return None
