"""Launches that are left out, because the kernel that reads their pixels computes them while reading."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeVar

from ..launch import Launch

Owner = TypeVar("Owner")


def fused(launches: Sequence[tuple[Owner, Launch]], stored: Collection[int]) -> list[tuple[Owner, Launch]]:
    """The launches, given with their owners, without those whose pixels have a single reader that computes them itself.

    `stored`: address arrays, by id, of batches that are needed in memory."""
    if all(launch.offers is None for _, launch in launches):
        return list(launches)
    items = [(owner, launch, set(map(id, launch.context))) for owner, launch in launches]  # sets, because each offer asks all launches
    for offer in [item for item in items if item[1].offers is not None]:
        pixels = offer[1].offers
        assert pixels is not None
        target = id(pixels.target)
        users = [item for item in items if target in item[2] and item is not offer]
        takes = users[0][1].takes if len(users) == 1 else None
        taken = None if takes is None or target in stored else takes(pixels)
        if taken is not None:
            made = users[0][0], taken, set(map(id, taken.context))
            items = [made if item is users[0] else item for item in items if item is not offer]
    return [(owner, launch) for owner, launch, _ in items]
