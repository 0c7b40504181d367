"""Objects that the parts of a running pool share."""

from __future__ import annotations

from dataclasses import dataclass

from .batches.outstanding import Outstanding
from .batches.positions import Positions
from .batches.queues import Queues
from .channels import Channels
from .counts import Counts
from .processes.members import Member
from .shared.system import Descriptors


@dataclass(frozen=True)
class Parts:
    """Made once, when the pool starts; guarded by the pool's lock.

    The parts do not refer to the engine or to objects made from the parts, so a pool without references is freed without the garbage
    collector.
    """

    members: list[Member]
    channels: Channels
    descriptors: Descriptors
    queues: Queues
    outstanding: Outstanding
    positions: Positions
    counts: Counts
