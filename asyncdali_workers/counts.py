"""Counts of a pool, for its statistics."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from .batches.slots import Extent
from .processes.members import Member


@dataclass
class Counts:
    batches: int = 0
    bytes: int = 0
    overflows: int = 0
    retries: int = 0


def statistics(counts: Counts, members: list[Member], extents: list[Extent], memory: int, outstanding: int) -> dict[str, Any]:
    """The report; see docs/workers.md. Needs the pool's lock. A pool that is not running has no members and no extents, nor `memory`."""
    workers = [member.statistics() for member in members]
    slots = [extent for extent in extents if extent.part_capacity]
    return {
        "workers": workers,
        "queue_wait_seconds": sum(worker["queue_wait_seconds"] for worker in workers),
        "batches": counts.batches,
        "bytes": counts.bytes,
        "restarts": sum(worker["restarts"] for worker in workers),
        "retries": counts.retries,
        "slots": len(slots),
        "capacities": [extent.part_capacity for extent in slots for _ in range(extent.parts)],
        "per_sample_capacities": [extent.part_capacity // extent.per_part for extent in slots for _ in range(extent.parts)],
        "reserved_bytes": sum(extent.size for extent in extents),
        "used_bytes": os.fstat(memory).st_blocks * 512 if extents else 0,
        "overflows": counts.overflows,
        "outstanding": outstanding,
    }
