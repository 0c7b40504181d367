"""State that a trainer keeps of an actor and of a requested iteration."""

from __future__ import annotations

from typing import Any

from ..engines.parent.ordered import Asked
from ..runtime.work.segments import SegmentRun
from .link import Link

SUSPECT = 2
"""When this number of actors ended with the same iteration, an actor makes it alone, so that no other iteration is suspected."""

HINT = "It may be down, or a firewall may drop what is sent to this port"


class ActorRequest(Asked):
    """An iteration requested from actors."""

    __slots__ = ("digest", "keep", "lost", "payloads", "places", "wrong")

    def __init__(self, run: SegmentRun, before: dict[str, object]):
        super().__init__(run, before)
        self.payloads: list[list[memoryview]] = []
        self.keep: list[Any] = []
        self.places: list[ActorPlace] = []  # actors that work on this request
        self.lost: list[str] = []  # why actors were lost that worked on this request
        self.wrong: set[ActorPlace] = set()  # actors that gave a wrong answer to this request: others are asked first
        self.digest: bytes | None = None

    @property
    def suspect(self) -> bool:
        """Whether this iteration may be the reason why actors ended."""
        return len(self.lost) >= SUSPECT


class ActorPlace:
    """One actor, as one loader knows it."""

    def __init__(self, address: str):
        self.address = address
        self.link: Link | None = None
        self.ready = self.leaving = False
        self.near = False  # whether it is on this machine, and lends its memory
        self.pid = 0
        self.reason = f"the host has not answered yet. {HINT}"
        self.attempts = 0  # connection attempts since the actor was last ready
        self.refused = False  # the last attempt failed for a reason that a later attempt does not change
        self.wrong = 0  # wrong messages since the last right answer: the next attempt to connect waits longer
        self.heard = 0.0
        self.outstanding: dict[tuple[int, int], tuple[ActorRequest, float]] = {}
        self.counters: dict[str, Any] = {}  # the actor's own counters over all ranks, as last received
        self.asked = self.answered = self.late = self.hedged = self.busy = self.bytes = self.restarts = 0

    @property
    def guarded(self) -> bool:
        """Whether the actor makes an iteration that may end it."""
        return any(asked.suspect for asked, _ in self.outstanding.values())

    def outstanding_since(self) -> float:
        """When its oldest request was sent."""
        return next(iter(self.outstanding.values()))[1]
