"""Blocks of shared memory: anonymous files, whose descriptors are sent to other processes. No block has a name, so none is left behind."""

from __future__ import annotations

import bisect
import contextlib
import ctypes
import fcntl
import itertools
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from asyncdali_workers.shared.calls import ENGINES, memory
from asyncdali_workers.shared.system import Mapping, Memory, commit, huge_place, up, use_huge_pages

from ...device.buffers import BlockOwner
from ...system import forks
from ...system.descriptors import require_descriptors

PAGE = 4096
_SEALS = fcntl.F_ADD_SEALS
_FIXED = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
"""The size of a block never changes, so no process meets SIGBUS in it."""


class _Owned(Mapping):
    """The mapping of a block in the process that made it. The block's number is noted when the last array over the mapping is freed."""

    __slots__ = ("gone", "number")

    def __init__(self, descriptor: int, size: int, number: int, gone: deque[int]):
        super().__init__(descriptor, 0, size, huge_place(size))
        self.number, self.gone = number, gone

    def __del__(self, *_: object) -> None:
        gone = getattr(self, "gone", None)
        if gone is not None:
            gone.append(self.number)  # first, because unmapping makes the address available to other blocks
        super().__del__()


class OwnBlocks:
    """Blocks that this process makes for its pool of buffers. Other processes get the descriptors."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._starts: list[int] = []  # sorted addresses; `_blocks` has the same order
        self._blocks: list[tuple[int, int, int]] = []  # (size, number, descriptor)
        self._numbers = itertools.count(1)
        self._gone: deque[int] = deque()
        self._by_number: dict[int, int] = {}  # number -> address

    def make(self, size: int) -> np.ndarray:
        """A block as uint8[size]. The memory returns to the system when the last array over the block is freed.

        Raises a MemoryError that names the limit when the system has no such memory.
        """
        size = up(max(size, 1), PAGE)
        try:
            descriptor = memory("asyncdali-engine", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING, ENGINES)
        except OSError:
            require_descriptors(1, "shared memory for a batch cannot be made")  # raises an error that names the limit
            raise
        try:
            _grow(descriptor, size)
            fcntl.fcntl(descriptor, _SEALS, _FIXED)
            mapping = _Owned(descriptor, size, next(self._numbers), self._gone)
        except BaseException:
            os.close(descriptor)
            raise
        with self._lock:
            at = bisect.bisect(self._starts, mapping.address)
            self._starts.insert(at, mapping.address)
            self._blocks.insert(at, (size, mapping.number, descriptor))
            self._by_number[mapping.number] = mapping.address
        use_huge_pages(mapping)  # takes 40 ms for 38 MB: an interrupt finds a block that take_gone() can close
        return np.asarray(Memory(mapping.address, size, mapping))

    def find(self, first: int, stop: int) -> tuple[int, int, int] | None:
        """(number, descriptor, address of its start) of the block that holds the addresses from `first` to `stop`, or None."""
        with self._lock:
            at = bisect.bisect(self._starts, first) - 1
            if at < 0:
                return None
            start = self._starts[at]
            size, number, descriptor = self._blocks[at]
            return (number, descriptor, start) if stop <= start + size else None

    def take_gone(self) -> list[int]:
        """Numbers of the freed blocks. Their descriptors are closed."""
        found = []
        while self._gone:
            number = self._gone.popleft()
            with self._lock:
                start = self._by_number.pop(number)
                # A newer block may have the address of a freed block.
                at = bisect.bisect(self._starts, start) - 1
                while self._blocks[at][1] != number:
                    at -= 1
                _, _, descriptor = self._blocks.pop(at)
                self._starts.pop(at)
            os.close(descriptor)
            found.append(number)
        return found

    def close(self) -> None:
        """Close all descriptors. Memory in use stays until its last array is freed."""
        with self._lock:
            descriptors = [descriptor for _, _, descriptor in self._blocks]
            self._blocks, self._starts = [], []
            self._by_number.clear()
        for descriptor in descriptors:
            with contextlib.suppress(OSError):
                os.close(descriptor)


def _grow(descriptor: int, size: int) -> None:
    try:
        commit(descriptor, 0, size)
    except MemoryError as error:
        raise MemoryError(f"a batch needs a new block of memory that engine and training process share: {error}") from error


class _Pinned(Mapping):
    """The mapping of a block that is page-locked for a GPU until it is unmapped."""

    __slots__ = ("pin",)

    def __init__(self, descriptor: int, size: int, pin: Callable[[int, int], object]):
        super().__init__(descriptor, 0, size, huge_place(size))
        self.pin = pin(self.address, size)

    def __del__(self, *_: object) -> None:
        self.pin = None  # unpin before the memory is unmapped
        super().__del__()


class ForeignBlocks:
    """Blocks that another process made, mapped in this process."""

    def __init__(self) -> None:
        self._mappings: dict[int, Mapping] = {}
        self._unmapped: dict[int, int] = {}  # descriptors of blocks for which there was no room in the address space
        self.pin: Callable[[int, int], Any] | None = None
        """Page-locks the memory of each new block (address, size), once. The result keeps the memory page-locked."""

    def add(self, number: int, descriptor: int) -> None:
        """Map a block and close the descriptor. If there is no room in the address space, :meth:`at` tries again."""
        self._unmapped[number] = descriptor
        with contextlib.suppress(MemoryError):
            self._map(number)

    def _map(self, number: int) -> None:
        descriptor = self._unmapped[number]
        size = os.fstat(descriptor).st_size
        self._mappings[number] = Mapping(descriptor, 0, size, huge_place(size)) if self.pin is None else _Pinned(descriptor, size, self.pin)
        os.close(self._unmapped.pop(number))

    def drop(self, numbers: Iterable[int]) -> None:
        """Forget unused blocks. Views of them keep their memory."""
        for number in numbers:
            self._mappings.pop(number, None)
            if number in self._unmapped:
                os.close(self._unmapped.pop(number))

    def close(self) -> None:
        """Forget all blocks. Views of them keep their memory."""
        self._mappings.clear()
        self.drop(list(self._unmapped))

    def at(self, number: int, offset: int, size: int) -> tuple[int, Mapping]:
        """The address of a piece of a block, and the object that keeps it alive. ValueError if the piece is not inside the block,
        MemoryError if the block cannot be mapped."""
        if number in self._unmapped:
            self._map(number)
        mapping = self._mappings.get(number)
        if mapping is None or offset < 0 or size < 0 or offset + size > mapping.size:
            raise ValueError(f"block {number} does not hold {size} bytes at {offset}")
        return mapping.address + offset, mapping

    def bytes(self, place: list[int]) -> memoryview:
        """A copy of [block, offset, size, ...]."""
        number, offset, size, *_ = place
        address, _mapping = self.at(number, offset, size)
        return memoryview(ctypes.string_at(address, size))


class Lease(BlockOwner):
    """Owner of memory that an engine has lent. When the last view is freed, the lease number is appended to a deque; nothing else runs."""

    __slots__ = ("__weakref__", "_mapping", "_number", "_pid", "_returned", "nbytes")

    def __init__(self, mapping: object, number: int, returned: deque[int], nbytes: int):
        self.nbytes = nbytes
        self._mapping = mapping
        self._number = number
        self._pid = forks.pid
        self._returned = returned  # last: without it, an interrupted construction owns nothing

    def __del__(self) -> None:
        returned = getattr(self, "_returned", None)
        if returned is not None and forks.pid == self._pid:
            returned.append(self._number)
