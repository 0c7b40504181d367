"""Pooled memory for batches.

A pooled array's base is a :class:`PooledBuffer`; every view given to the user (numpy, DLPack, torch) keeps it alive. When the last
view is dropped, its finaliser appends the raw memory to a deque, and nothing else: it may run on any thread at any time. The pool
takes memory back from there at the next allocation. Allocation never waits: if everything is held, the pool grows.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable

import numpy as np

from ..compiled.memory import address_of

SMALL = 64 * 1024
"""Smaller blocks come straight from the C library."""


class BlockOwner:
    """Owner of one block of a pool's memory, of which `nbytes` were asked for. It ends with the last view."""

    __slots__ = ()
    nbytes: int


class PooledBuffer(BlockOwner):
    """Owner of one block of pooled memory."""

    __slots__ = ("__array_interface__", "__weakref__", "_memory", "_pid", "_returned", "nbytes")

    def __init__(self, memory: np.ndarray, returned: deque[np.ndarray], size: int):
        self._memory = memory
        self._returned = returned
        self._pid = os.getpid()
        self.nbytes = size  # the block may be larger
        self.__array_interface__ = {"data": (address_of(memory), False), "shape": (size,), "typestr": "|u1", "version": 3}

    def __del__(self) -> None:
        # In a forked child the pool's memory belongs to the parent's pool: leave it alone.
        if os.getpid() == self._pid:
            self._returned.append(self._memory)


def size_class(size: int) -> int:
    """Block size for a request: at most a quarter larger, so that ragged batches of about one size share blocks."""
    if size <= SMALL:
        return SMALL
    step = 1 << max(12, (size - 1).bit_length() - 3)
    return -(-size // step) * step


def _plain(size: int) -> np.ndarray:
    return np.empty(size, np.uint8)


class BufferPool:
    """Blocks of memory, kept for reuse by size class; one per pipeline.

    make    gives fresh memory, a uint8 array of a size (pinned memory where there is a GPU)
    small   requests below this many bytes come straight from the C library
    spare   free memory that is kept for batches of other sizes, as a part of what is in use
    """

    def __init__(self, make: Callable[[int], np.ndarray] | None = None, small: int = SMALL, spare: float = 0.5) -> None:
        self._make = make or _plain
        self._small = small
        self._spare = spare
        self._returned: deque[np.ndarray] = deque()
        self._free: dict[int, list[np.ndarray]] = {}
        self._lock = threading.Lock()
        self._age: deque[int] = deque()
        self.allocated_bytes = 0
        self.free_bytes = 0

    def allocate(self, size: int) -> np.ndarray:
        """A uint8 array of `size` bytes, 64-byte aligned when large; contents undefined."""
        if size < self._small:
            return np.empty(size, np.uint8)
        block = size_class(size)
        with self._lock:
            self._collect()
            memory = self._take(block)
            if memory is None:
                self._trim(block)
                memory = self._make(block)
                self.allocated_bytes += block
        return np.asarray(PooledBuffer(memory, self._returned, size))

    def reserve(self, size: int) -> None:
        """Make sure a free block for `size` bytes is there (a sizing hint)."""
        if size >= SMALL:
            self.allocate(size)[::4096] = 0  # touches the pages now rather than in the first iteration; the block returns at once

    def idle_bytes(self) -> int:
        """Bytes of the blocks that nobody refers to."""
        with self._lock:
            self._collect()
            return self.free_bytes

    def _collect(self) -> None:
        while self._returned:
            memory = self._returned.popleft()
            self._free.setdefault(len(memory), []).append(memory)
            self._age.append(len(memory))
            self.free_bytes += len(memory)

    def _take(self, block: int) -> np.ndarray | None:
        """A free block of this class, or of one at most a half larger."""
        found = block if self._free.get(block) else None
        if found is None:
            larger = [size for size, blocks in self._free.items() if blocks and block < size <= block + block // 2]
            found = min(larger) if larger else None
        if found is None:
            return None
        self.free_bytes -= found
        self._age.remove(found)
        return self._free[found].pop()

    def _trim(self, block: int) -> None:
        """Before growing, let go of free blocks beyond what may be spare (other sizes from earlier batches)."""
        while self._age and self.free_bytes > int((self.allocated_bytes - self.free_bytes) * self._spare):
            size = self._age.popleft()
            self._free[size].pop(0)
            self.free_bytes -= size
            self.allocated_bytes -= size
