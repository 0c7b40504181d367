"""The CUDA device: streams, events, memory, launches. The interface shared with the host device is in `asyncdali.device.base`."""

from __future__ import annotations

import logging
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import chain, compress, count, repeat
from operator import attrgetter, is_, is_not
from typing import Any

import numpy as np

from ...batch import Batch
from ...compiled import gate
from ...compiled.addresses import address_of, pointers_to
from ...compiled.places import lay_out, to_addresses
from ...compiled.tables import Handle, table_of
from ..launch import Code, Kernel, Launch, LaunchPerSample, Scratch
from ..threads import OrderedThread, Reports, WorkerState, WorkerThreads
from .arrays import CudaMemory, buffers_of, pending_events, pieces
from .command_kernels import current_context, perform
from .commands import Commands
from .driver import Driver
from .fed_arrays import FedArrays
from .gates import CompletionGate, CompletionWatch
from .gather import copy_launch
from .idle import leave_stream, take_stream
from .memory import LEGACY_STREAM, CudaEvent, DeviceBuffer, DevicePool, Events, MemoryBlock, PinnedMemory, pinned_pool
from .timing import StreamTimes
from .upload_kernels import ALIGNMENT, UPLOAD, fill_upload, place_upload
from .user_arrays import UserArrays

log = logging.getLogger("asyncdali")

_WORDS = ALIGNMENT // 8
_PADDING = [(0,) * (-k % _WORDS) for k in range(_WORDS)]
_USUAL_KINDS = {np.ndarray, Handle, Scratch}
_bytes, _size, _is_dense = attrgetter("nbytes"), attrgetter("size"), attrgetter("flags.c_contiguous")
_TOTALS = UPLOAD.span("upload_bytes", "total_bytes")
_SPARE = 8.0
_HELD_BYTES = 1 << 19
"""Uploads up to this size are written with the interpreter lock held. A busy thread keeps the lock for 5 ms."""
_SMALL_SAMPLE = 64 << 10
"""Mean bytes of samples that are gathered before they are copied to the host. A larger copy takes longer than its call."""
MAX_KEPT = 16
"""A stream may be this many iterations behind the host before its thread waits."""


class CudaStream:
    """A stream of the device, and the thread that queues work on it.

    `submit` runs a call on that thread, in order. The call queues device work on :attr:`handle`.
    """

    def __init__(self, device: CudaDevice, name: str):
        self.device = device
        self.handle: int = take_stream(device.driver, device.index)
        self._thread = OrderedThread(name)
        self._kept: deque[tuple[CudaEvent, object]] = deque()
        self._keeping = threading.Lock()  # the next iteration may begin on another thread while this one is being queued
        self._closed = False

    def submit(self, work: Callable[[WorkerState], object]) -> None:
        self._thread.submit(work)

    def wait(self, event: CudaEvent) -> None:
        """Work that is queued from now on starts after `event`."""
        commands = self.commands()
        commands.wait(event)
        commands.perform()

    def commands(self) -> Commands:
        """An empty list of commands for the stream. Several lists may be filled at a time; the order of their execution counts."""
        return Commands(self.device.driver, self.handle)

    def times(self) -> StreamTimes:
        """An object that measures work on this stream."""
        return StreamTimes(self.device.driver, self.device.index)

    def keep(self, event: CudaEvent, things: object) -> None:
        """Keep host memory that device work reads or writes until `event` has completed."""
        over, kept = [], self._kept  # released outside of the lock
        with self._keeping:
            kept.append((event, things))
            while kept and kept[0][0].done():
                over.append(kept.popleft())

    def settle(self) -> None:
        """Wait for the queued work of an iteration that could not be queued completely, because its memory may be reused afterwards."""
        try:
            self.device.driver.stream_synchronize(self.handle)
        except Exception as error:  # the device has failed, so the queued work will not run either
            log.debug("the stream failed, too: %s", error)

    def throttle(self) -> None:
        """Wait if the host is far ahead of the device. Otherwise a consumer that never waits would fill the memory."""
        while len(self._kept) > MAX_KEPT:
            with self._keeping:
                if len(self._kept) <= MAX_KEPT:
                    return
                kept = self._kept.popleft()
            kept[0].wait()

    def close(self) -> None:
        self._thread.close()

    def join(self, timeout: float) -> bool:
        ended = self._thread.join(timeout)
        if ended and not self._closed:
            self._closed = True
            self.device.driver.use(self.device.index)
            self.device.driver.stream_synchronize(self.handle)
            self._kept.clear()
            leave_stream(self.device.driver, self.device.index, self.handle)
        return ended


class _Entered:
    """See :meth:`CudaDevice.entered`. `before` is the calling thread's context."""

    __slots__ = ("_before", "_device")

    def __init__(self, device: CudaDevice, before: int):
        self._device, self._before = device, before

    def __enter__(self) -> None:
        self._device.enter()

    def __exit__(self, *exc: object) -> None:
        self._device.driver.restore(self._before)


_STAYS = nullcontext()


class CudaDevice:
    """One GPU, for one pipeline.

    pool      device memory;  staging  pinned memory of any size;  pinned  pinned memory for batches of CPU operators
    """

    def __init__(self, driver: Driver, index: int):
        count = driver.device_count()
        if not 0 <= index < count:
            raise RuntimeError(f"device_id={index}: there {'is' if count == 1 else 'are'} {count} CUDA device{'s' * (count != 1)}")
        kernels = current_context, perform, lay_out, to_addresses, place_upload, fill_upload, gate.make, gate.open_gate, gate.pass_gate
        for function in kernels:
            function.compile()
        self.driver = driver
        self.index = index
        driver.use(index)
        self.context = driver.current()
        """The device's context, which all of the process share. A thread has chosen the device if this is its current context."""
        self.events = Events(driver, index)
        self.pool = DevicePool(driver, index, self.events)
        # Pinned memory is expensive to get, so free blocks stay in the pool.
        self.pinned = pinned_pool(driver, index, spare=_SPARE)
        self.staging = pinned_pool(driver, index, small=0, spare=_SPARE)
        self.copy_stream: int = take_stream(driver, index)
        """A stream for copies that users request, outside of the pipeline's streams. It is returned with the device object."""
        weakref.finalize(self, leave_stream, driver, index, self.copy_stream).atexit = False
        self.memory = CudaMemory(self)
        self.parts: list[Any] = []
        """Objects to be closed with the pipeline: decoders with threads."""
        self._lent: weakref.WeakSet[FedArrays] = weakref.WeakSet()
        self.keepers: weakref.WeakSet[Any] = weakref.WeakSet()
        """Objects that keep device memory between iterations, until their method `clear`."""
        self._reporter: WorkerThreads | Reports | None = None
        self._functions: dict[Kernel | Code, Any] = {}
        self._compiling = threading.Lock()
        self._local = threading.local()

    def reporter(self) -> WorkerThreads | Reports:
        """Reports the ends of work on threads that never enter the interpreter: :meth:`report_to`, or a thread."""
        if self._reporter is None:
            self._reporter = threads = WorkerThreads(1, "asyncdali-device-reports")
            self.parts.append(threads)
        return self._reporter

    def collect_reports(self, workers: WorkerThreads) -> Reports:
        """Collect the ends of jobs, and what :meth:`reporter` would report. To be called before anything uses it.

        Beside a thread that runs pure Python, each thread that reports waits for the interpreter. One thread that reports and talks to
        engines does everything that has come meanwhile.
        """
        assert self._reporter is None
        self._reporter = reports = workers.collect_reports()
        return reports

    def enter(self) -> None:
        """Make this the calling thread's device."""
        self.driver.use(self.index)

    def settle(self) -> None:
        """Wait for all work on the device, also for work that is on no stream of this program."""
        with self.entered():
            try:
                self.driver.device_synchronize()
            except Exception as error:  # the device has failed, so the queued work will not run either
                log.debug("the device failed: %s", error)

    def entered(self) -> AbstractContextManager[None]:
        """Make this the calling thread's device within a block that begins now. Then restore the previous one, because the thread is the
        user's. Programs with one GPU have it already."""
        before = self.driver.current()
        return _STAYS if before == self.context else _Entered(self, before)

    def pin(self, address: int, size: int) -> PinnedMemory:
        """Page-lock host memory that this process did not allocate, until the returned object is dropped."""
        return PinnedMemory(self.driver, self.index, address, size)

    def expect(self, depth: int) -> None:
        """Announce the number of iterations in flight. Memory for one more of each kind is allocated immediately."""
        self.pool.ahead = self.pinned.ahead = self.staging.ahead = depth + 2

    def reserve(self, size: int) -> None:
        """Make sure that a block of device memory for `size` bytes is free."""
        if size:
            with self.entered():
                self.pool.reserve(size)

    def lasting(self, size: int) -> MemoryBlock:
        """`size` bytes outside of batches, freed with the last reference, at `address`. DeviceMemoryError if there is no memory."""
        with self.entered():
            return MemoryBlock(self.driver, self.index, size)

    def stream(self, name: str) -> CudaStream:
        self.enter()
        return CudaStream(self, name)

    def complete(self, batches: Sequence[Batch]) -> None:
        """Wait (with the interpreter lock released) until the GPU has made `batches`. Raises the error of the work."""
        pending = pending_events(batches)
        if pending:
            with self.entered():
                for event in pending:
                    event.wait()

    def completion_gate(self) -> CompletionGate:
        """A gate for one wait for batches that are not planned yet."""
        return CompletionGate(self.driver)

    def completion_watch(self) -> CompletionWatch:
        """A wait for batches that ends early if a message comes."""
        return CompletionWatch(self.driver)

    def order(self, batches: Sequence[Batch], stream: int | None) -> None:
        """The user's `stream` waits for `batches`, and their memory is not reused before `stream` has finished. The host does not wait."""
        commands = Commands(self.driver, stream or 0)
        waited = set()
        for buffer in [buffer for batch in batches for buffer in buffers_of(batch.memory_owner)]:
            buffer.readers.update((commands.stream, LEGACY_STREAM))
            if buffer.ready is not None and id(buffer.ready) not in waited:
                waited.add(id(buffer.ready))
                commands.wait(buffer.ready)
        with self.entered():
            commands.perform()

    def user_arrays(self, stream: CudaStream) -> UserArrays:
        """Converts the arguments and results of users' functions on `stream`."""
        return UserArrays(self, stream)

    def fed_arrays(self) -> FedArrays:
        """Accepts the user's arrays for a pipeline's external inputs."""
        made = FedArrays(self)
        self._lent.add(made)
        return made

    def release(self) -> None:
        """Free its memory that is not in use. Later memory is not kept for reuse. The threads and streams have ended."""
        with self.entered():
            for arrays in list(self._lent):  # their finalisers run the user's code
                arrays.settle()
            for keeper in list(self.keepers):
                keeper.clear()
            for pool in (self.pool, self.pinned, self.staging):
                pool.close()

    def function(self, kernel: Kernel | Code) -> Any:
        """The compiled kernel. It is compiled at the first request."""
        found = self._functions.get(kernel)
        if found is None:
            with self._compiling:
                found = self._functions.get(kernel)
                if found is None:
                    found = self.driver.load_code(kernel) if isinstance(kernel, Code) else self.driver.load(kernel)
                    self._functions[kernel] = found
        return found

    def upload(self, launches: Sequence[Launch], commands: Commands, passing: list[DeviceBuffer]) -> tuple[object, list[int]]:
        """Add one upload with all tables of `launches` to `commands`.

        Returns the host memory that must stay alive until the launches are done, and the address of each launch's table in device memory,
        which is appended to `passing`.
        """
        tables = Tables(launches)
        staged = self.staging.lend(tables.upload_bytes)
        buffer: DeviceBuffer = self.pool.allocate(tables.total_bytes, commands)
        at, address = staged.address, buffer.address
        tables.write(at, address)
        commands.copy(address, at, tables.upload_bytes, pinned=True)
        passing.append(buffer)
        return staged, [address + 8 * begin for begin in tables.begins]

    def copy_samples(
        self, target: int, batch: Batch, commands: Commands, passing: list[DeviceBuffer], to_device: bool = False, pinned: bool = False
    ) -> None:
        """Add the copies that place the samples of `batch`, one after another, at `target`. `to_device`: the target is in device memory.

        A call per sample takes longer than the copy of a small sample. So samples in device memory are gathered by one launch, and one copy
        takes them to the host. Device memory is appended to `passing`. `pinned` as in :meth:`Commands.copy`.
        """
        parts = pieces(target, batch)
        size = sum([count for _, _, count in parts])
        apart = len(parts) > 1 and (to_device or size <= _SMALL_SAMPLE * len(parts)) and buffers_of(batch.memory_owner)
        if not apart:
            for to, at, count in parts:
                commands.copy(to, at, count, pinned)
            return
        gathered = target
        if not to_device:
            buffer = self.pool.allocate(size, commands)
            passing.append(buffer)
            gathered = buffer.address
        targets, sources, sizes = np.array(parts, np.int64).T.copy()
        launch = copy_launch(sources, targets + (gathered - target), sizes)
        tables = Tables([launch])
        table = self.pool.allocate(tables.total_bytes, commands)
        passing.append(table)
        written = np.empty(tables.upload_bytes, np.uint8)
        tables.write(address_of(written), table.address)
        commands.copy(table.address, address_of(written), len(written))  # pageable: the driver has read it when the call returns
        commands.keep(written)
        commands.launch(self.function(launch.kernel), launch.grid, launch.block, launch.shared, table.address)
        if not to_device:
            commands.copy(target, gathered, size, pinned)

    def launch_all(self, launches: Sequence[tuple[object, Launch, object]], commands: Commands, passing: list[DeviceBuffer]) -> object:
        """Add launches, given as (owner, launch, compiled kernel), to `commands`: one upload with all their tables, then the kernels.

        Returns the host memory that must stay alive until they are done. Device memory is appended to `passing`.
        """
        staged, contexts = self.upload([launch for _, launch, _ in launches], commands, passing)
        for (owner, launch, function), context in zip(launches, contexts):
            commands.record_for(owner)
            if isinstance(launch, LaunchPerSample):
                commands.launch_each(function, launch.blocks, launch.threads, launch.arguments)
            else:
                commands.launch(function, launch.grid, launch.block, launch.shared, context)
        commands.record_for(None)
        return staged


class Tables:
    """The layout of the tables of launches: the launches' own tables first, then arrays, then scratch memory.

    upload_bytes    size of tables and arrays;  total_bytes  size of all
    arrays          arrays and handles of address arrays
    begins          start of each launch's table, in words

    A batch of two views has 64 arrays. Functions written in C go through them, because loops took a tenth of the interpreter time.
    """

    def __init__(self, launches: Sequence[Launch]):
        words: list[Any] = []
        self.begins: list[int] = []
        for launch in launches:
            self.begins.append(len(words))
            words += launch.context
            words += _PADDING[len(words) % _WORDS]
        addresses = _not_integers(words)
        entries = list(map(words.__getitem__, addresses))
        kinds = set(map(type, entries))
        if not kinds <= _USUAL_KINDS:
            for k, entry in zip(addresses, entries):
                if not isinstance(entry, (np.ndarray, Handle, Scratch)):
                    words[k] = int(entry)
            addresses = _not_integers(words)
            entries = list(map(words.__getitem__, addresses))
        things = list(dict(zip(map(id, entries), entries)).values())  # each once
        scratch: list[Scratch] = []
        if Scratch in kinds:
            scratch = list(compress(things, map(is_, map(type, things), repeat(Scratch))))
            things = list(compress(things, map(is_not, map(type, things), repeat(Scratch))))
        self.arrays: list[Any] = things
        numbers: Any = dict(zip(map(id, chain(things, scratch)), count()))
        sizes = *map(_bytes, things), *map(_size, scratch)
        self._counts = len(words), len(addresses), len(things), len(sizes)
        self._table = table = table_of((
            *self._counts, 0, 0, *map(numbers.get, map(id, words), words), *addresses, *sizes, *sizes,
        ))  # fmt: skip
        place_upload.held(address_of(table))
        self.upload_bytes, self.total_bytes = table[_TOTALS].tolist()

    @property
    def words(self) -> np.ndarray:
        """The words of all tables, with offsets in place of addresses."""
        return self._table[UPLOAD.words :][: self._counts[0]]

    @property
    def addresses(self) -> list[int]:
        """The indices of the words that are offsets."""
        words, addresses, _, _ = self._counts
        found: list[int] = self._table[UPLOAD.words + words :][:addresses].tolist()
        return found

    @property
    def places(self) -> list[int]:
        """The offsets of the arrays."""
        _, _, arrays, things = self._counts
        found: list[int] = self._table[-things:][:arrays].tolist() if things else []
        return found

    def write(self, staged: int, address: int) -> None:
        """Write tables and arrays to `staged`, whose device copy will be at `address`. Called once."""
        arrays = self.arrays
        if not all(map(_is_dense, arrays)):
            arrays = list(map(np.ascontiguousarray, arrays))
        sources, keep = pointers_to(arrays)
        write = fill_upload.held if self.upload_bytes <= _HELD_BYTES else fill_upload
        write(address_of(self._table), address_of(sources), staged, address)
        del keep


def _not_integers(words: Sequence[object]) -> list[int]:
    """Indices of the entries that are not of type int."""
    return list(compress(count(), map(is_not, map(type, words), repeat(int))))
