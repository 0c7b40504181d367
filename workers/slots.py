"""The parent's side of shared memory: extents of the shared file, lent to batches, and taken back when their last view is gone."""

from __future__ import annotations

import bisect
import os
import threading
from collections import deque
from typing import Any

from .control import END, END_LOCK, Control
from .system import PAGE, Mapping, commit, locked, punch, up

WINDOW = 64
"""Free extents that were not needed for this many batches are more than a source needs."""


class Extent:
    """A piece of the shared file, mapped into this process."""

    __slots__ = ("__weakref__", "committed", "mapping", "offset", "part_capacity", "parts", "per_part", "schema", "size")

    def __init__(self, descriptor: int, offset: int, size: int):
        self.offset, self.size = offset, size
        self.mapping = Mapping(descriptor, offset, size)
        self.schema = 0  # number of the schema whose text stands in its first page
        self.committed = 0  # bytes from its start that are backed by memory for sure
        self.parts, self.per_part = 1, 1  # for statistics: slices, samples in one, and bytes for them
        self.part_capacity = 0


class Lease:
    """An extent in use. Whatever needs the memory holds the lease; when the last holder drops it, the extent returns."""

    __slots__ = ("__weakref__", "_pid", "_returned", "extent")

    def __init__(self, extent: Extent, returned: deque[Extent]):
        self.extent = extent
        self._returned = returned
        self._pid = os.getpid()

    def __del__(self, _getpid: Any = os.getpid) -> None:
        # It may run on any thread at any time: nothing but this. In a forked child the memory is the parent's business.
        if _getpid() == self._pid:
            self._returned.append(self.extent)


def size_class(size: int) -> int:
    """At most a quarter larger than asked, so that batches of about one size share extents."""
    step = 1 << max(12, (size - 1).bit_length() - 3)
    return up(size, step)


class Holes:
    """Free ranges of the shared file, merged with their neighbours."""

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
        """The first range of this size; what remains of it stays."""
        for at, (offset, found) in enumerate(self._ranges):
            if found >= size:
                if found == size:
                    del self._ranges[at]
                else:
                    self._ranges[at] = offset + size, found - size
                return offset
        return None

    def last(self, end: int) -> int | None:
        """Where the range begins that reaches up to `end`; it is taken out."""
        if self._ranges and sum(self._ranges[-1]) == end:
            return self._ranges.pop()[0]
        return None

    @property
    def size(self) -> int:
        return sum(size for _, size in self._ranges)


class Slots:
    """Extents for batches: the last one returned is the first to be used again, while its pages are in the caches."""

    def __init__(self, control: Control):
        self._control = control
        self._lock = threading.Lock()
        self._returned: deque[Extent] = deque()
        self._free: dict[int, list[Extent]] = {}
        self._holes = Holes()
        self._extents: set[Extent] = set()
        self._age: deque[Extent] = deque()
        self.free_bytes = 0
        self.total_bytes = 0
        self.taken_over = 0
        self.kept = 0  # extents that are never let go: those made at the start
        self._window = WINDOW
        self._never_needed = 0

    def lend(self, size: int) -> Lease:
        """An extent of at least `size` bytes."""
        block = size_class(size)
        with self._lock:
            self._collect()
            extent = self._take(block)
            if extent is None:
                self._trim(block)
                extent = self._make(block)
            self._age_out()
            return Lease(extent, self._returned)

    def take_over(self, offset: int, size: int) -> Lease:
        """Memory that a worker took at the end of the file becomes ours."""
        with self._lock:
            try:
                extent = Extent(self._control.descriptor, offset, size)
            except MemoryError:
                self._release(offset, size)
                raise
            extent.committed = size
            self._register(extent)
            self.taken_over += 1
            return Lease(extent, self._returned)

    def reclaim(self, offset: int, size: int) -> None:
        """Memory that a worker took before it died."""
        with self._lock:
            self._release(offset, size)

    def extents(self) -> list[Extent]:
        with self._lock:
            self._collect()
            return sorted(self._extents, key=lambda extent: extent.offset)

    def close(self) -> None:
        """Unmap what is free. What is lent stays until its holders are gone."""
        with self._lock:
            self._collect()
            self._free.clear()
            self._age.clear()
            self._extents.clear()

    # ------------------------------------------------------------------------------------------------- with the lock held

    def _collect(self) -> None:
        while self._returned:
            extent = self._returned.popleft()
            self._free.setdefault(extent.size, []).append(extent)
            self._age.append(extent)
            self.free_bytes += extent.size

    def _take(self, block: int) -> Extent | None:
        """A free extent of this class, or of one at most a half larger."""
        found = block if self._free.get(block) else None
        if found is None:
            larger = [size for size, extents in self._free.items() if extents and block < size <= block + block // 2]
            found = min(larger) if larger else None
        if found is None:
            return None
        extent = self._free[found].pop()
        self._age.remove(extent)
        self.free_bytes -= found
        return extent

    def _make(self, size: int) -> Extent:
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
        self.total_bytes += extent.size

    def _grow(self, size: int) -> int:
        control = self._control
        with locked(control.descriptor, END_LOCK):
            end = control.header[END]
            start = self._holes.last(end)
            offset = end if start is None else start
            os.ftruncate(control.descriptor, max(offset + size, end))
            control.header[END] = max(offset + size, end)
        return offset

    def _trim(self, block: int) -> None:
        """Before growing, let go of free extents beyond half of what is in use (other sizes, from earlier batches)."""
        while self._age and self.free_bytes > (self.total_bytes - self.free_bytes) // 2 + block:
            self._let_go()

    def _age_out(self) -> None:
        """After a peak: extents that stayed free over many batches are let go."""
        self._never_needed = min(self._never_needed, len(self._age))
        self._window -= 1
        if self._window <= 0:
            for _ in range(min(self._never_needed, len(self._extents) - self.kept)):
                self._let_go()
            self._window, self._never_needed = WINDOW, len(self._age)

    def _let_go(self) -> None:
        """The free extent that was not used for the longest time goes back to the system."""
        extent = self._age.popleft()
        self._free[extent.size].remove(extent)
        self._extents.discard(extent)
        self.free_bytes -= extent.size
        self.total_bytes -= extent.size
        self._release(extent.offset, extent.size)

    def _release(self, offset: int, size: int) -> None:
        punch(self._control.descriptor, offset, size)
        self._holes.add(offset, size)


def ensure_committed(descriptor: int, extent: Extent, size: int) -> None:
    """Have memory behind the first `size` bytes, so that no worker meets SIGBUS there."""
    if size > extent.committed:
        commit(descriptor, extent.offset, min(up(size, PAGE), extent.size))
        extent.committed = size
