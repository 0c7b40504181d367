"""Device memory for batches, kept for reuse, and pinned host memory.

The problem. ``cudaMalloc`` is slow, and ``cudaFree`` waits for the device. So memory is kept. A batch may be dropped while kernels still
read it, on any of several streams, and on any thread, also by the garbage collector.

What does not work:

- Waiting on the host until the readers are done: the thread that drops a batch would wait for the GPU.
- An event per use of a buffer: every call of CUDA takes a microsecond or more, and an iteration has dozens of uses.
- Stream-ordered allocators (``cudaMallocAsync``): the memory must be freed on one stream, but its readers are on several, and a user may
  have an array of the pipeline on a stream that is not known.
- Calls of CUDA in a finaliser: it may run in any thread, in the middle of another call, or at the interpreter's exit.

The solution. A :class:`DeviceBuffer` owns a batch's memory and lists every stream that reads or writes it. When the last reference goes,
the finaliser appends to a deque and does nothing else. At the next allocation the pool records an event on each of those streams; all
memory that is reclaimed at one time shares one event per stream. The next owner's stream waits for these events on the device. Memory that
only the pipeline's own iterations have used is behind the events of these iterations, so nothing extra is recorded in the steady state.
Memory that a user has seen also waits for the default stream (:data:`LEGACY_STREAM`).

Sizes. The number of batches in flight depends on timing, and their sizes on chance. Three rules prevent new allocations after hours: a
block is an eighth larger than requested (a half below 32 MB); a block also serves smaller requests; if one block of a size is not enough,
the pool keeps as many as the prefetch depth plus two, below 32 MB from the start.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import weakref
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np

from ...batch import AddressView
from ...system import forks
from ..buffers import BlockOwner, BufferPool, Returned, largest_for, more_ahead, roomy_class, size_class
from .commands import Commands
from .driver import DeviceMemoryError, Driver

log = logging.getLogger("asyncdali")

LEGACY_STREAM = 0
"""The default stream, which frameworks use unless told otherwise. Memory that a user has seen is not reused before it."""


class CudaEvent:
    """A point in a stream. Handles are reused."""

    __slots__ = ("_events", "_over", "handle")

    def __init__(self, events: Events, handle: int):
        self._events = events
        self._over = False
        self.handle = handle

    def wait(self) -> None:
        """Block until the work before the event is done. The interpreter lock is released only if it is not done yet."""
        self._events.driver.use(self._events.device)
        if self.done():
            return
        self._events.driver.event_synchronize(self.handle)
        self._over = True

    def is_over(self) -> bool:
        return self._over

    def passed(self) -> None:
        """Note that this event has completed: the caller has waited for the event through the driver, without an error."""
        self._over = True

    def when_done(self, call: Callable[[], None]) -> None:
        """The driver has no completion callbacks, so the call runs immediately."""
        call()

    def done(self) -> bool:
        if not self._over:  # a completed event stays completed
            self._over = self._events.driver.event_done(self.handle)
        return self._over

    def __del__(self) -> None:
        self._events.free.append(self.handle)


_Behind: TypeAlias = "list[tuple[int, CudaEvent]]"
"""Streams, with the events on them that the memory must wait for."""


_EVENTS = 32
"""Least number of events that are created at a time."""
_MANY = 16
"""With more events than this, a buffer drops those that have completed."""


class Events:
    """Events of one device, kept for reuse because creating an event is expensive."""

    def __init__(self, driver: Driver, device: int):
        self.driver = driver
        self.device = device
        self.free: deque[int] = deque()
        self.created = 0
        self._pid = forks.pid

    def record(self, stream: int) -> CudaEvent:
        """An event after all commands of `stream` so far."""
        event = self.new()
        self.driver.event_record(event.handle, stream)
        return event

    def last(self, commands: Commands) -> CudaEvent:
        """Execute `commands` and record the event after them."""
        event = self.new()
        commands.record(event.handle)
        commands.perform()
        return event

    def new(self) -> CudaEvent:
        """An event that has not been recorded."""
        try:
            handle = self.free.popleft()
        except IndexError:
            handle = self._create()
        return CudaEvent(self, handle)

    def _create(self) -> int:
        """Create half as many events as there are.

        So the number in use, which depends on timing, is reached soon and creations are rare.
        """
        more = max(self.created // 2, _EVENTS - 1)
        self.created += 1 + more
        self.free.extend(self.driver.event_create() for _ in range(more))
        return self.driver.event_create()

    def __del__(self) -> None:
        if forks.pid == self._pid and not sys.is_finalizing():
            for handle in self.free:  # no event is in use, because each event keeps this object alive
                try:
                    self.driver.event_destroy(handle)
                except Exception as error:
                    log.debug("an event could not be destroyed: %s", error)


class MemoryBlock:
    """Device memory that is freed with the last reference."""

    __slots__ = ("address", "device", "driver", "pid", "size")

    def __init__(self, driver: Driver, device: int, size: int):
        self.driver, self.device, self.size, self.pid = driver, device, size, forks.pid
        self.address = 0
        self.address = driver.malloc(size)

    def __del__(self) -> None:
        if self.address and self.pid == forks.pid and not sys.is_finalizing():
            try:
                self.driver.free(self.address)
            except Exception as error:
                log.debug("device memory could not be freed: %s", error)


class Addressed(Protocol):
    """Device memory: a block of the pool, or a user's."""

    address: int


class DeviceBuffer(BlockOwner):
    """Owner of one block of device memory, of the pool or of a user.

    ready     event after the work that fills it; None until that work is queued
    stream    handle of the stream of that work
    readers   handles of all streams that use it, except for work that is known to be before an event (:meth:`used`)
    before    with `at_once` (:meth:`DevicePool.allocate`): events behind all earlier work that uses the memory
    """

    __slots__ = ("__weakref__", "_behind", "_block", "_pid", "_returned", "address", "before", "readers", "ready", "size", "stream")

    def __init__(self, block: Addressed, returned: Returned, size: int, stream: int):
        self._block = block
        self._returned = returned
        self._pid = forks.pid
        self.address = block.address
        self.size = size
        self.stream = stream
        self.readers = {stream}
        self.ready: CudaEvent | None = None
        self.before: Sequence[CudaEvent] = ()
        self._behind: _Behind = []

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        """The same as `size`."""
        return self.size

    def passed(self, stream: int, event: CudaEvent) -> None:
        """Forget the readers: all their work so far is before `event` of `stream`. The pool need not record events for them."""
        self.readers = set()
        self._behind = [(stream, event)]

    def used(self, stream: int, event: CudaEvent) -> None:
        """Note work of a user that is not in `readers`: it is queued in `stream`, before `event`."""
        if len(self._behind) >= _MANY:  # a buffer that lives long: forget completed events
            self._behind = [item for item in self._behind if not item[1].done()]
        self._behind.append((stream, event))

    def stream_is_behind(self) -> None:
        """Forget the events of the memory, because the stream of the buffer waits for them."""
        self._behind = []

    def __del__(self) -> None:
        if forks.pid == self._pid:  # a forked child does not own it
            self._returned.give((self._block, self.readers, self._behind))


class DevicePool:
    """Memory of one device by size class. There is one pool per pipeline."""

    def __init__(self, driver: Driver, device: int, events: Events):
        self._driver = driver
        self._device = device
        self._events = events
        self._returned = Returned()
        self._free: dict[int, deque[tuple[MemoryBlock, _Behind]]] = {}
        self._fitting: dict[int, list[int]] = {}
        # References to all blocks. Otherwise, when the garbage collector finalises a cycle with a buffer, it would also finalise the block
        # that the buffer has just returned to the pool.
        self._blocks: set[MemoryBlock] = set()
        self._lock = threading.Lock()
        self.allocations = 0
        """Number of driver allocations; constant in steady state."""
        self.allocated_bytes = 0
        self._made: Counter[int] = Counter()  # number of blocks by size
        self.ahead = 1
        """See :class:`BufferPool`."""

    def allocate(self, size: int, commands: Commands, at_once: bool = False) -> DeviceBuffer:
        """`size` uninitialised bytes for the next commands in `commands`. The DeviceMemoryError names the request and the pool.

        `at_once`: for a library that writes when it is called, not in the order of a stream. If no free block is idle and the pool may not
        grow, ``before`` has the events that the host must wait for before the call.
        """
        stream, wanted = commands.stream, size_class(size)
        with self._lock:
            if self._returned:
                self._collect()
            block, pending = self._take(wanted, None if at_once else stream)
            if block is None:
                block = self._grow(size)
            elif pending and at_once:
                block, pending = self._idle_in_place_of(block, pending, size)
        buffer = DeviceBuffer(block, self._returned, size, stream)
        if pending:
            buffer._behind = pending
            if at_once:
                buffer.before = [event for _, event in pending]
            commands.behind(buffer, [event for other, event in pending if other != stream])
        return buffer

    def _idle_in_place_of(self, block: MemoryBlock, behind: _Behind, size: int) -> tuple[MemoryBlock, _Behind]:
        """A new block in place of a `block` in use, if the pool has fewer than `ahead` of them. Otherwise the same block."""
        if sum(self._made[known] for known in self._sizes_for(size_class(size))) >= self.ahead:
            return block, behind
        try:
            idle = self._grow(size)
        except DeviceMemoryError:
            return block, behind
        self._put_back(block, behind)
        return idle, []

    def close(self) -> None:
        """Free the blocks that are not in use, which waits for their work. The others are freed with their buffers."""
        with self._lock:
            self._returned.closed = True
            self._collect()
            self._let_go()
            self._blocks.clear()

    def reserve(self, size: int) -> None:
        """Make sure that a block for `size` bytes is free. DeviceMemoryError as in :meth:`allocate`."""
        with self._lock:
            self._put_back(self._grow(size), [])

    def _collect(self) -> None:
        """Reclaim returned memory, with one event on each stream that used any of it.

        Only memory that is in the deque now is reclaimed. Memory that another thread returns later may be in use by work after the events.
        """
        recorded: dict[int, CudaEvent | None] = {}
        returned = self._returned
        for _ in range(len(returned)):
            block, streams, behind = returned.popleft()
            for stream in streams:
                if stream not in recorded:
                    recorded[stream] = self._record(stream)
                event = recorded[stream]
                if event is not None:
                    behind.append((stream, event))
            self._put_back(block, behind)

    def _put_back(self, block: MemoryBlock, behind: _Behind) -> None:
        free = self._free.get(block.size)
        if free is None:
            free = self._free[block.size] = deque()
            self._fitting.clear()
        free.append((block, behind))

    def _record(self, stream: int) -> CudaEvent | None:
        try:
            self._driver.use(self._device)
            return self._events.record(stream)
        except Exception as error:  # the user has destroyed the stream, so its work is complete
            log.debug("stream %s cannot be waited for: %s", stream, error)
            return None

    def _take(self, wanted: int, stream: int | None) -> tuple[MemoryBlock | None, _Behind]:
        """A free block of this class or of a larger one (`largest_for`), and the events that `stream` (None: the host) must wait for.

        A block without events is preferred; then the block that was released first."""
        first: deque[tuple[MemoryBlock, _Behind]] | None = None
        for size in self._fitting.get(wanted) or self._sizes_for(wanted):
            blocks = self._free[size]
            if not blocks:
                continue
            first = first or blocks
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

    def _grow(self, size: int) -> MemoryBlock:
        """A new block for `size` bytes, with some room, and spare blocks (`more_ahead`)."""
        self._driver.use(self._device)
        room = roomy_class(size)
        block = self._new(room)
        if self._returned.closed:
            self._blocks.clear()
            return block
        with contextlib.suppress(DeviceMemoryError):  # these blocks are only spare
            for _ in range(more_ahead(room, self._made[room], self.ahead)):
                self._put_back(self._make(room), [])
        return block

    def _make(self, size: int) -> MemoryBlock:
        block = MemoryBlock(self._driver, self._device, size)
        self.allocations += 1
        self.allocated_bytes += size
        self._made[size] += 1
        self._blocks.add(block)
        return block

    def _new(self, size: int) -> MemoryBlock:
        try:
            return self._make(size)
        except DeviceMemoryError:
            self._let_go()  # free blocks of other sizes; freeing a block waits for its work
            try:
                return self._make(size)
            except DeviceMemoryError as error:
                raise self.exhausted(str(error)) from None

    def exhausted(self, what: str) -> DeviceMemoryError:
        """The error for a request, described by `what`, that could not be met."""
        return DeviceMemoryError(
            f"out of memory on GPU {self._device}: {what}; this pipeline holds {self.allocated_bytes} bytes of it in batches. "
            "A smaller batch, a smaller prefetch_queue_depth or dropping outputs sooner helps."
        )

    def _let_go(self) -> None:
        """Free all unused blocks."""
        for blocks in self._free.values():
            for block, _ in blocks:
                self._blocks.remove(block)
                self._made[block.size] -= 1
                self.allocated_bytes -= block.size
        self._free.clear()
        self._fitting.clear()

    def held_bytes(self) -> int:
        """Bytes of free blocks."""
        with self._lock:
            self._collect()
            return sum(block.size for blocks in self._free.values() for block, _ in blocks)


class _PinnedBlock:
    __slots__ = ("address", "driver", "pid")

    def __init__(self, driver: Driver, size: int):
        self.driver, self.pid, self.address = driver, forks.pid, 0
        self.address = driver.host_alloc(size)

    def __del__(self) -> None:
        if self.address and self.pid == forks.pid and not sys.is_finalizing():
            try:
                self.driver.host_free(self.address)
            except Exception as error:
                log.debug("pinned memory could not be freed: %s", error)


class PinnedMemory:
    """Host memory of another owner, page-locked until this object is dropped. Copies to the device then need no staging by the driver.

    A driver that cannot page-lock the memory leaves it pageable: copies are slower, and nothing else changes.
    """

    __slots__ = ("_address", "_device", "_driver", "_pid")

    def __init__(self, driver: Driver, device: int, address: int, size: int):
        self._driver, self._device, self._pid, self._address = driver, device, forks.pid, 0
        try:
            self._on_device(driver.host_register, address, size)
            self._address = address
        except (RuntimeError, MemoryError) as error:
            log.debug("%d bytes could not be page-locked for GPU %d: %s", size, device, error)

    def _on_device(self, call: Callable[..., object], *arguments: int) -> None:
        before = self._driver.current()
        self._driver.use(self._device)
        try:
            call(*arguments)
        finally:
            self._driver.restore(before)

    def __del__(self) -> None:
        if self._address and self._pid == forks.pid and not sys.is_finalizing():
            try:
                self._on_device(self._driver.host_unregister, self._address)
            except Exception as error:
                log.debug("memory could not be unlocked: %s", error)


def pinned_pool(driver: Driver, device: int, **options: Any) -> BufferPool:
    """A pool (:class:`BufferPool`, with its `options`) of page-locked host memory, also for threads that have chosen no device.

    Its ``allocate`` raises DeviceMemoryError that names the request and the pool.
    """

    def pinned_array(size: int) -> np.ndarray:
        before = driver.current()  # the thread may be the user's, feeding a batch
        driver.use(device)
        try:
            block = _PinnedBlock(driver, size)
        except DeviceMemoryError as error:
            held = pool()
            raise DeviceMemoryError(
                f"out of pinned memory for GPU {device}: {error}; this pool of the pipeline holds {held.allocated_bytes if held else 0} "
                "bytes. A smaller batch, a smaller prefetch_queue_depth or dropping outputs sooner helps."
            ) from None
        finally:
            driver.restore(before)
        return np.asarray(AddressView(block.address, (size,), np.dtype(np.uint8), block))

    made = BufferPool(pinned_array, ahead=1, **options)
    pool = weakref.ref(made)
    return made
