"""Device memory for batches, kept for reuse, and pinned host memory.

A batch's memory is owned by a :class:`DeviceBuffer`. Every stream that reads or writes it is noted there. When the last reference goes, the
finaliser appends to a deque, and nothing else; at the next allocation the pool records an event on each of those streams, and
memory is handed out again only behind these events: the new owner's stream waits for them, the host never does.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
import weakref
from collections import Counter, deque
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from ...batch import AddressView
from ..buffers import BlockOwner, BufferPool, largest_for, more_ahead, roomy_class, size_class
from .commands import Commands
from .driver import DeviceMemoryError, Driver

log = logging.getLogger("asyncdali")

LEGACY_STREAM = 0
"""The default stream, on which frameworks work unless told otherwise: memory that a user saw is not reused before it."""


class CudaEvent:
    """A point in a stream. Handles are reused."""

    __slots__ = ("_events", "_over", "handle")

    def __init__(self, events: Events, handle: int):
        self._events = events
        self._over = False
        self.handle = handle

    def wait(self) -> None:
        """Block (interpreter lock released) until the work before it is done."""
        self._events.driver.use(self._events.device)
        self._events.driver.event_synchronize(self.handle)
        self._over = True

    def when_done(self, call: Callable[[], None]) -> None:
        """Make `call` at once: the driver calls nobody back."""
        call()

    def done(self) -> bool:
        if not self._over:  # what is over remains so
            self._over = self._events.driver.event_done(self.handle)
        return self._over

    def __del__(self) -> None:
        self._events.free.append(self.handle)


_Behind: TypeAlias = "list[tuple[int, CudaEvent]]"
"""Streams and the events on them that memory is behind."""


_EVENTS = 32
"""Made at least at a time."""
_MANY = 16
"""Events that a buffer is behind before those that are over are forgotten."""


class Events:
    """Events of one device; creating one is dear, so they are kept."""

    def __init__(self, driver: Driver, device: int):
        self.driver = driver
        self.device = device
        self.free: deque[int] = deque()
        self.created = 0
        self._pid = os.getpid()

    def record(self, stream: int) -> CudaEvent:
        """An event behind everything that `stream` was told so far."""
        return self.last(Commands(self.driver, stream))

    def last(self, commands: Commands) -> CudaEvent:
        """Perform `commands`; the event is behind them."""
        try:
            handle = self.free.popleft()
        except IndexError:
            handle = self._create()
        event = CudaEvent(self, handle)
        commands.record(handle)
        commands.perform()
        return event

    def _create(self) -> int:
        """More events, half as many as there are: how many are in use at once is a matter of time, and shall seldom be news."""
        more = max(self.created // 2, _EVENTS - 1)
        self.created += 1 + more
        self.free.extend(self.driver.event_create() for _ in range(more))
        return self.driver.event_create()

    def __del__(self) -> None:
        if os.getpid() == self._pid and not sys.is_finalizing():
            for handle in self.free:  # all of them: an event keeps this alive
                try:
                    self.driver.event_destroy(handle)
                except Exception as error:
                    log.debug("an event could not be destroyed: %s", error)


class _Block:
    """Memory of the device, freed with the last reference."""

    __slots__ = ("address", "device", "driver", "pid", "size")

    def __init__(self, driver: Driver, device: int, size: int):
        self.driver, self.device, self.size, self.pid = driver, device, size, os.getpid()
        self.address = 0
        self.address = driver.malloc(size)

    def __del__(self) -> None:
        if self.address and self.pid == os.getpid() and not sys.is_finalizing():
            try:
                self.driver.free(self.address)
            except Exception as error:
                log.debug("device memory could not be freed: %s", error)


class DeviceBuffer(BlockOwner):
    """Owner of one block of device memory, the pool's or a user's (anything with an `address`).

    ready     event behind the work that fills it; None until that is queued
    stream    handle of the stream of that work
    readers   handles of all streams that use it, but for work that is known to be in front of an event (:meth:`used`)
    """

    __slots__ = ("__weakref__", "_behind", "_block", "_pid", "_returned", "address", "readers", "ready", "size", "stream")

    def __init__(self, block: Any, returned: deque[Any], size: int, stream: int):
        self._block = block
        self._returned = returned
        self._pid = os.getpid()
        self.address = block.address
        self.size = size
        self.stream = stream
        self.readers = {stream}
        self.ready: CudaEvent | None = None
        self._behind: _Behind = []

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        """The same as `size`."""
        return self.size

    def passed(self, stream: int, event: CudaEvent) -> None:
        """All work so far that uses it is in front of `event` of `stream`: the pool need not ask its readers."""
        self.readers = set()
        self._behind = [(stream, event)]

    def used(self, stream: int, event: CudaEvent) -> None:
        """Somebody else's work with it is in front of `event` of `stream`, and was never among the readers'."""
        if len(self._behind) >= _MANY:  # it lives long
            self._behind = [item for item in self._behind if not item[1].done()]
        self._behind.append((stream, event))

    def stream_is_behind(self) -> None:
        """Its stream was told to wait for the work that its memory is behind."""
        self._behind = []

    def __del__(self) -> None:
        if os.getpid() == self._pid:  # a forked child has no part in it
            self._returned.append((self._block, self.readers, self._behind))


class DevicePool:
    """Memory of one device, by size class; one per pipeline."""

    def __init__(self, driver: Driver, device: int, events: Events):
        self._driver = driver
        self._device = device
        self._events = events
        self._returned: deque[tuple[_Block, set[int], _Behind]] = deque()
        self._free: dict[int, deque[tuple[_Block, _Behind]]] = {}
        self._fitting: dict[int, list[int]] = {}
        # All there are. When the garbage collector finalises a cycle with a buffer in it, it would also finalise a block that nobody
        # else refers to, which the buffer has just returned to us.
        self._blocks: set[_Block] = set()
        self._lock = threading.Lock()
        self.allocations = 0
        """How often the driver was asked for memory: constant in steady state."""
        self.allocated_bytes = 0
        self._made: Counter[int] = Counter()  # blocks by size
        self.ahead = 1
        """See :class:`BufferPool`."""

    def allocate(self, size: int, commands: Commands) -> DeviceBuffer:
        """`size` bytes for what is added to `commands` next, contents undefined. DeviceMemoryError that names the request and the pool."""
        stream = commands.stream
        with self._lock:
            if self._returned:
                self._collect()
            block, pending = self._take(size_class(size), stream)
            if block is None:
                block = self._grow(size)
        buffer = DeviceBuffer(block, self._returned, size, stream)
        if pending:
            buffer._behind = pending
            commands.behind(buffer, [event for other, event in pending if other != stream])
        return buffer

    def _collect(self) -> None:
        """Take back what was returned, behind one event of each stream that used any of it. Only what is there now: what another thread
        returns meanwhile may be used by work that the events are not behind."""
        recorded: dict[int, CudaEvent | None] = {}
        for _ in range(len(self._returned)):
            block, streams, behind = self._returned.popleft()
            for stream in streams:
                if stream not in recorded:
                    recorded[stream] = self._record(stream)
                event = recorded[stream]
                if event is not None:
                    behind.append((stream, event))
            self._put_back(block, behind)

    def _put_back(self, block: _Block, behind: _Behind) -> None:
        free = self._free.get(block.size)
        if free is None:
            free = self._free[block.size] = deque()
            self._fitting.clear()
        free.append((block, behind))

    def _record(self, stream: int) -> CudaEvent | None:
        try:
            self._driver.use(self._device)
            return self._events.record(stream)
        except Exception as error:  # the user's stream is gone, and so is its work
            log.debug("stream %s cannot be waited for: %s", stream, error)
            return None

    def _take(self, wanted: int, stream: int) -> tuple[_Block | None, _Behind]:
        """A free block of this class or a larger one (`largest_for`), and the events that `stream` must wait for: one without if there is,
        else the one released first."""
        first: deque[tuple[_Block, _Behind]] | None = None
        for size in self._sizes_for(wanted):
            blocks = self._free[size]
            if blocks and first is None:
                first = blocks
            for k, (block, behind) in enumerate(blocks):
                for other, event in behind:
                    if other != stream and not event.done():
                        break
                else:
                    del blocks[k]
                    return block, []
        return (None, []) if first is None else first.popleft()

    def _sizes_for(self, wanted: int) -> list[int]:
        """Sizes of blocks that serve a request of this class, the smallest first."""
        found = self._fitting.get(wanted)
        if found is None:
            limit = largest_for(wanted)
            found = self._fitting[wanted] = sorted(size for size in self._free if wanted <= size <= limit)
        return found

    def _grow(self, size: int) -> _Block:
        """A new block for `size` bytes, with some room, and spare ones (`more_ahead`)."""
        self._driver.use(self._device)
        room = roomy_class(size)
        block = self._new(room)
        with contextlib.suppress(DeviceMemoryError):  # nobody needs these yet
            for _ in range(more_ahead(room, self._made[room], self.ahead)):
                self._put_back(self._make(room), [])
        return block

    def _make(self, size: int) -> _Block:
        block = _Block(self._driver, self._device, size)
        self.allocations += 1
        self.allocated_bytes += size
        self._made[size] += 1
        self._blocks.add(block)
        return block

    def _new(self, size: int) -> _Block:
        try:
            return self._make(size)
        except DeviceMemoryError:
            self._let_go()  # sizes of earlier batches; freeing waits for their work
            try:
                return self._make(size)
            except DeviceMemoryError as error:
                raise self.exhausted(str(error)) from None

    def exhausted(self, what: str) -> DeviceMemoryError:
        """The error for a request, described by `what`, that could not be met."""
        return DeviceMemoryError(
            f"out of memory on GPU {self._device}: {what}; this pipeline holds {self.allocated_bytes} bytes of it in batches. "
            "A smaller batch, a smaller prefetch_queue_depth or letting go of outputs sooner helps."
        )

    def _let_go(self) -> None:
        """Free what nobody uses."""
        for blocks in self._free.values():
            for block, _ in blocks:
                self._blocks.remove(block)
                self._made[block.size] -= 1
                self.allocated_bytes -= block.size
        self._free.clear()
        self._fitting.clear()

    def held_bytes(self) -> int:
        """Bytes of blocks that are free at the moment."""
        with self._lock:
            self._collect()
            return sum(block.size for blocks in self._free.values() for block, _ in blocks)


class _PinnedBlock:
    __slots__ = ("address", "driver", "pid")

    def __init__(self, driver: Driver, size: int):
        self.driver, self.pid, self.address = driver, os.getpid(), 0
        self.address = driver.host_alloc(size)

    def __del__(self) -> None:
        if self.address and self.pid == os.getpid() and not sys.is_finalizing():
            try:
                self.driver.host_free(self.address)
            except Exception as error:
                log.debug("pinned memory could not be freed: %s", error)


def pinned_pool(driver: Driver, device: int, **options: Any) -> BufferPool:
    """A pool (:class:`BufferPool`, with its `options`) of page-locked host memory, for threads that have chosen no device, too.

    Its ``allocate`` raises DeviceMemoryError that names the request and the pool.
    """

    def pinned_array(size: int) -> np.ndarray:
        before = driver.current()  # the thread may be the user's, who feeds a batch
        driver.use(device)
        try:
            block = _PinnedBlock(driver, size)
        except DeviceMemoryError as error:
            held = pool()
            raise DeviceMemoryError(
                f"out of pinned memory for GPU {device}: {error}; this pool of the pipeline holds {held.allocated_bytes if held else 0} "
                "bytes. A smaller batch, a smaller prefetch_queue_depth or letting go of outputs sooner helps."
            ) from None
        finally:
            driver.restore(before)
        return np.asarray(AddressView(block.address, (size,), np.dtype(np.uint8), block))

    made = BufferPool(pinned_array, ahead=1, **options)
    pool = weakref.ref(made)
    return made
