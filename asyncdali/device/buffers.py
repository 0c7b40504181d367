"""Pooled memory for batches.

A pooled array's base is a :class:`PooledBuffer`, which every view given to the user (numpy, DLPack, torch) keeps alive. When the last
view is dropped, the finaliser appends the raw memory to a deque and does nothing else, because it may run on any thread at any time. The
pool takes the memory back at the next allocation. Allocation never waits: if all memory is in use, the pool grows. A closed pool keeps no
memory: blocks that are not in use are freed by :meth:`BufferPool.close`, others with their last view.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

import numpy as np
from asyncdali_workers import limits

from ..compiled.addresses import address_of
from ..system import forks

SMALL = 64 * 1024
"""Smaller blocks are allocated by the C library."""
_FEW, _TABLES = 32 << 20, 1 << 20


class Returned(deque[Any]):
    """Memory that finalisers give back to a pool. After the pool was closed they free it, as there may be no further allocation."""

    closed = False

    def give(self, item: object) -> None:
        """Called by finalisers."""
        self.append(item)
        if self.closed:
            self.clear()


class BlockOwner:
    """Owner of one block of a pool, with `nbytes` requested bytes. It ends with the last view."""

    __slots__ = ()
    nbytes: int


class PooledBuffer(BlockOwner):
    """Owner of one block of pooled memory."""

    __slots__ = ("__weakref__", "_memory", "_pid", "_returned", "address", "nbytes")

    def __init__(self, memory: np.ndarray, returned: Returned, size: int):
        self._memory = memory
        self._returned = returned
        self.address = address_of(memory)
        self.nbytes = size  # the block may be larger
        self._pid = forks.pid  # last, because an interrupt may come before

    @property
    def __array_interface__(self) -> dict[str, object]:
        return {"data": (self.address, False), "shape": (self.nbytes,), "typestr": "|u1", "version": 3}

    def __del__(self) -> None:
        # In a forked child the pool's memory belongs to the parent's pool, so the child does not touch it.
        if getattr(self, "_pid", None) == forks.pid:
            self._returned.give(self._memory)


def size_class(size: int) -> int:
    """Block size for a request: at most a quarter larger, so that ragged batches of similar size share blocks."""
    if size <= SMALL:
        return SMALL
    step = 1 << max(12, (size - 1).bit_length() - 3)
    return -(-size // step) * step


def roomy_class(size: int) -> int:
    """Block size for a pool that should not grow again soon: somewhat larger requests of the same kind also fit.

    Sums of few samples vary more than sums of many."""
    return size_class(size + size // (2 if size < _FEW else 8))


def largest_for(block: int) -> int:
    """The largest block that such a pool uses for a request of the size class `block`."""
    return (4 if block < _FEW else 2) * block


def more_ahead(block: int, made: int, ahead: int) -> int:
    """Number of spare blocks that a pool allocates with the last of `made` blocks of a size.

    The number of blocks in use depends on timing; the iterations in flight bound it. With spare blocks the pool reaches its final size
    soon, and later allocations are rare. One spare block is enough for large sizes; tables are needed several times per iteration."""
    if ahead < 2 or (made < 2 and block >= _FEW):
        return 0
    return max((2 * ahead if block <= _TABLES else ahead) - made, 1)


def _plain(size: int) -> np.ndarray:
    return np.empty(size, np.uint8)


class BufferPool:
    """Blocks of memory, kept for reuse by size class. There is one pool per pipeline.

    make    allocates a uint8 array of a size (pinned memory if there is a GPU)
    small   requests below this many bytes are allocated by the C library
    spare   most free memory that is kept for batches of other sizes, as a fraction of the memory in use
    ahead   0: allocate as requested. Otherwise memory is expensive to get: blocks are larger than requested and serve much smaller requests
            too. If one block of a size is not enough (and always for small sizes), the pool allocates this many of them, then two at a time
    """

    def __init__(self, make: Callable[[int], np.ndarray] | None = None, small: int = SMALL, spare: float = 0.5, ahead: int = 0) -> None:
        self._make = make or _plain
        self._small = small
        self._spare = spare
        self.ahead = ahead
        self._made: Counter[int] = Counter()  # number of blocks by size, with `ahead`
        self._returned = Returned()
        self._free: dict[int, list[np.ndarray]] = {}
        self._lock = threading.Lock()
        self._age: deque[int] = deque()
        """The sizes of free blocks, the one that was free for longest first. An interrupt may leave sizes here whose blocks are gone."""
        self.allocated_bytes = 0

    @property
    def free_bytes(self) -> int:
        """Bytes of the free blocks that were taken back."""
        return sum(size * len(blocks) for size, blocks in self._free.items())

    def allocate(self, size: int) -> np.ndarray:
        """An uninitialised uint8 array of `size` bytes; 64-byte aligned if it is large."""
        return np.empty(size, np.uint8) if size < self._small else np.asarray(self.lend(size))

    def lend(self, size: int) -> PooledBuffer:
        """`size` uninitialised bytes for code that needs only their address, until the last reference is dropped."""
        block = size_class(size)
        with self._lock:
            memory = self._collect(block)
            if memory is None:
                memory = self._take(block)
            if memory is None:
                self._trim(block)
                memory = self._grown_ahead(size) if self.ahead else self._grown(block)
        return PooledBuffer(memory, self._returned, size)

    def _grown(self, block: int) -> np.ndarray:
        if block >= limits.CHECKED:
            limits.check(block, "a batch needs a new block of memory")
        memory = self._make(block)
        self.allocated_bytes += block
        return memory

    def _grown_ahead(self, size: int) -> np.ndarray:
        block = roomy_class(size)
        memory = self._grown(block)
        self._made[block] += 1
        if self._returned.closed:
            return memory
        with contextlib.suppress(MemoryError):  # these blocks are only spare
            for _ in range(more_ahead(block, self._made[block], self.ahead)):
                self._put_back(self._grown(block))
                self._made[block] += 1
        return memory

    def close(self) -> None:
        """Free the blocks that are not in use. The others are freed with their last views. Later blocks are not kept for reuse."""
        with self._lock:
            self._returned.closed = True
            self._collect()
            self.allocated_bytes -= self.free_bytes
            self._free.clear()
            self._age.clear()
            self._made.clear()

    def reserve(self, size: int) -> None:
        """Make sure that a block for `size` bytes is free (a sizing hint)."""
        if size >= SMALL:
            self.allocate(size)[::4096] = 0  # touch the pages now, not in the first iteration; the block is freed again

    def forfeit(self, memory: np.ndarray) -> None:
        """Never use the memory of an allocated array again: another process may still use it. It is freed with the last view."""
        buffer = memory.base
        while isinstance(buffer, np.ndarray):
            buffer = buffer.base
        if isinstance(buffer, PooledBuffer) and buffer._returned is self._returned:
            buffer._returned = Returned()
            with self._lock:
                self.allocated_bytes -= len(buffer._memory)

    def idle_bytes(self) -> int:
        """Bytes of the free blocks."""
        with self._lock:
            self._collect()
            return self.free_bytes

    def _collect(self, wanted: int = 0) -> np.ndarray | None:
        """Take the returned blocks back. The last of size `wanted` is in use again, so its way through the free blocks is left out."""
        found: np.ndarray | None = None
        while self._returned:
            memory = self._returned.popleft()
            if len(memory) != wanted:
                self._put_back(memory)
                continue
            if found is not None:
                self._put_back(found)
            found = memory
        return found

    def _put_back(self, memory: np.ndarray) -> None:
        self._age.append(len(memory))
        self._free.setdefault(len(memory), []).append(memory)

    def _take(self, block: int) -> np.ndarray | None:
        """A free block of this class, or of one at most a half larger (with `ahead`: :func:`largest_for`)."""
        found = block if self._free.get(block) else None
        if found is None:
            limit = largest_for(block) if self.ahead else block + block // 2
            larger = [size for size, blocks in self._free.items() if blocks and block < size <= limit]
            found = min(larger) if larger else None
        if found is None:
            return None
        memory = self._free[found].pop()
        self._age.remove(found)
        return memory

    def _trim(self, block: int) -> None:
        """Before growing, free blocks beyond the spare amount (other sizes, from earlier batches)."""
        while self._age and self.free_bytes > int((self.allocated_bytes - self.free_bytes) * self._spare):
            size = self._age[0]
            if self._free.get(size):
                self._free[size].pop(0)
                self._made[size] -= 1
                self.allocated_bytes -= size
            self._age.popleft()
