"""The parent's side of shared memory: extents of the shared file, lent to batches and taken back with their last view."""

from __future__ import annotations

import bisect
import itertools
import os
import threading
import weakref
from collections import deque

from ..interrupts import uninterrupted
from ..shared.control import END, END_LOCK, Control
from ..shared.system import PAGE, Mapping, commit, locked, punch, up

WINDOW = 64
"""A free extent that was not needed for this many batches is given back to the system."""


LARGE = 16 << 20
"""Before an extent of this size is made, all free memory goes back. The first batch of a source lies in memory that its workers took,
which fits no later batch: large samples would take a batch more than is in use."""


class Extent:
    """A piece of the shared file, mapped into this process."""

    __slots__ = ("__weakref__", "committed", "mapping", "offset", "part_capacity", "parts", "per_part", "returned", "schema", "size")

    def __init__(self, descriptor: int, offset: int, size: int):
        self.offset, self.size = offset, size
        self.mapping = Mapping(descriptor, offset, size)
        self.schema = 0  # number of the schema in its first page
        self.committed = 0  # bytes from the start that surely have memory behind them
        self.parts, self.per_part = 1, 1  # for statistics: slices, and samples and bytes of one slice
        self.part_capacity = 0
        self.returned = -1  # number of its last return, counted over all slots


class SlotLease:
    """An extent in use. Every user of the memory holds the lease; when the last holder drops it, the extent returns."""

    __slots__ = ("__weakref__", "extent")

    def __init__(self, extent: Extent):
        self.extent = extent


class _Return(weakref.ref):  # type: ignore[type-arg]
    """Appends itself to a deque when a lease is freed, without any line of Python.

    So it may happen on any thread at any time, and no interrupt can prevent it. In a forked child the copy of the deque is never read."""

    __slots__ = ("extent",)

    extent: Extent


def size_class(size: int) -> int:
    """Round up by at most a quarter, so that batches of similar sizes share extents."""
    step = 1 << max(12, (size - 1).bit_length() - 3)
    return up(size, step)


class Holes:
    """Free ranges of the shared file; neighbours are merged."""

    def __init__(self) -> None:
        self._ranges: list[tuple[int, int]] = []  # (offset, size), in order

    def add(self, offset: int, size: int) -> None:
        at = bisect.bisect(self._ranges, (offset, size))
        if at < len(self._ranges) and offset + size == self._ranges[at][0]:
            size += self._ranges.pop(at)[1]
        if at and sum(self._ranges[at - 1]) == offset:
            at -= 1
            before = self._ranges.pop(at)
            offset, size = before[0], before[1] + size
        self._ranges.insert(at, (offset, size))

    def take(self, size: int) -> int | None:
        """Take the first range of this size. The rest stays free."""
        for at, (offset, found) in enumerate(self._ranges):
            if found >= size:
                if found == size:
                    del self._ranges[at]
                else:
                    self._ranges[at] = offset + size, found - size
                return offset
        return None

    def last(self, end: int) -> int | None:
        """Take out the range that ends at `end`, and return its start."""
        if self._ranges and sum(self._ranges[-1]) == end:
            return self._ranges.pop()[0]
        return None

    @property
    def size(self) -> int:
        return sum(size for _, size in self._ranges)


class Slots:
    """Extents for batches. The extent that was returned last is used first, because its pages are in the caches.

    An interrupt may come between any two steps of lending. So an extent leaves the free list last, and returning an extent that is still in
    the list has no effect. Other changes are rare, and are protected from interrupts.
    """

    def __init__(self, control: Control):
        self._control = control
        self._lock = threading.Lock()
        self._returned: deque[_Return] = deque()
        self._lent: set[_Return] = set()
        self._free: dict[int, list[Extent]] = {}  # by size, in the order of their return
        self._holes = Holes()
        self._extents: set[Extent] = set()
        self._clock = itertools.count()
        self.taken_over = 0
        self.kept = 0  # number of extents that are never given back: those made at the start
        self._window = WINDOW
        self._never_needed = 0

    def lend(self, size: int) -> SlotLease:
        """An extent of at least `size` bytes."""
        block = size_class(size)
        with self._lock:
            self._collect()
            extent = self._find(block)
            if extent is None:
                with uninterrupted():
                    self._trim(block)
                    extent = self._make(block)
            lease = self._lease(extent)
            self._age_out()
            return lease

    def _lease(self, extent: Extent) -> SlotLease:
        lease = SlotLease(extent)
        returning = _Return(lease, self._returned.append)
        returning.extent = extent
        self._lent.add(returning)
        self._free[extent.size].pop()
        return lease

    def take_over(self, offset: int, size: int) -> SlotLease:
        """The parent takes over memory that a worker allocated at the end of the file."""
        with self._lock:
            try:
                extent = Extent(self._control.descriptor, offset, size)
            except MemoryError:
                self._release(offset, size)
                raise
            extent.committed = size
            self._register(extent)
            self.taken_over += 1
            return self._lease(extent)

    def reclaim(self, offset: int, size: int) -> None:
        """Memory that a worker allocated before it died."""
        with self._lock:
            self._release(offset, size)

    def extents(self) -> list[Extent]:
        with self._lock:
            self._collect()
            return sorted(self._extents, key=lambda extent: extent.offset)

    def close(self) -> None:
        """Unmap free extents. Lent extents stay until their holders are gone."""
        with self._lock:
            self._returned.clear()
            self._lent.clear()
            self._free.clear()
            self._extents.clear()

    # ------------------------------------------------------------------------------------------------- with the lock held

    def _collect(self) -> None:
        returned = self._returned
        while returned:
            returning = returned[0]
            extent = returning.extent
            free = self._free[extent.size]
            if extent not in free:
                extent.returned = next(self._clock)
                free.append(extent)
            self._lent.discard(returning)
            returned.popleft()

    def _find(self, block: int) -> Extent | None:
        """A free extent of this size class, or one at most a half larger."""
        free = self._free.get(block)
        if free:
            return free[-1]
        larger = [size for size, extents in self._free.items() if extents and block < size <= block + block // 2]
        return self._free[min(larger)][-1] if larger else None

    def _make(self, size: int) -> Extent:
        """A new, free extent."""
        offset = self._holes.take(size)
        if offset is None:
            offset = self._grow(size)
        try:
            extent = Extent(self._control.descriptor, offset, size)
        except MemoryError:
            self._holes.add(offset, size)
            raise
        self._register(extent)
        return extent

    def _register(self, extent: Extent) -> None:
        self._extents.add(extent)
        self._free.setdefault(extent.size, []).append(extent)

    def _grow(self, size: int) -> int:
        control = self._control
        with locked(control.descriptor, END_LOCK):
            end = control.header[END]
            start = self._holes.last(end)
            offset = end if start is None else start
            os.ftruncate(control.descriptor, max(offset + size, end))
            control.header[END] = max(offset + size, end)
        return offset

    def _oldest(self) -> Extent | None:
        """The free extent that has not been used for the longest time."""
        return min((free[0] for free in self._free.values() if free), key=lambda extent: extent.returned, default=None)

    def _trim(self, block: int) -> None:
        """Before growing, give back free extents beyond half of the memory in use. They have other sizes, from earlier batches.

        Before a large one, all that is free goes back.
        """
        free = sum(size * len(extents) for size, extents in self._free.items())
        total = sum(extent.size for extent in self._extents)
        while free > (0 if block >= LARGE else (total - free) // 2 + block) and (extent := self._oldest()) is not None:
            free -= extent.size
            total -= extent.size
            self._let_go(extent)

    def _age_out(self) -> None:
        """After a peak: give back extents that stayed free for many batches."""
        free = sum(map(len, self._free.values()))
        self._never_needed = min(self._never_needed, free)
        self._window -= 1
        if self._window > 0:
            return
        surplus = min(self._never_needed, len(self._extents) - self.kept)
        self._window, self._never_needed = WINDOW, free
        with uninterrupted():
            for _ in range(surplus):
                extent = self._oldest()
                if extent is not None:
                    self._let_go(extent)

    def _let_go(self, extent: Extent) -> None:
        """Give an extent back to the system."""
        self._free[extent.size].remove(extent)
        self._extents.discard(extent)
        self._release(extent.offset, extent.size)

    def _release(self, offset: int, size: int) -> None:
        punch(self._control.descriptor, offset, size)
        self._holes.add(offset, size)


def shed(descriptor: int, extent: Extent, kept: int) -> None:
    """Give the pages of an extent behind the first `kept` bytes back: an earlier layout has written there."""
    punch(descriptor, extent.offset + kept, extent.size - kept)
    extent.committed = min(extent.committed, kept)


def ensure_committed(descriptor: int, extent: Extent, size: int) -> None:
    """Reserve memory for the first `size` bytes, so that no worker gets SIGBUS there."""
    if size > extent.committed:
        commit(descriptor, extent.offset, min(up(size, PAGE), extent.size))
        extent.committed = size
