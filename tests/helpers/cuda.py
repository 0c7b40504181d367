"""A CUDA simulator: "device" memory is host memory, streams run only when they are waited for, kernels are compiled for the host.

Asynchronous work runs as late as the rules allow. So memory that is reused too early, an event without a wait, or staging memory that is
overwritten before its copy gives wrong data. Copies from or to memory that is not allocated raise.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import io
import threading
import weakref
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from PIL import Image

from asyncdali.device import select
from asyncdali.device.cuda import command_tables as tables
from asyncdali.device.cuda import nvjpeg_library
from asyncdali.device.cuda.commands import listed
from asyncdali.device.cuda.driver import DeviceMemoryError, DriverError
from asyncdali.device.cuda.nvjpeg_library import IMAGE, NvjpegError
from asyncdali.device.launch import Kernel

from .kernels import host_kernel

_POISON = 0xDD
_COMMANDS = {
    tables.WAIT: "stream_wait", tables.RECORD: "event_record", tables.COPY: "copy", tables.LAUNCH: "launch",
    tables.LAUNCH_EACH: "launch_each", tables.CALL: "call", tables.SYNCHRONIZE: "event_synchronize",
    tables.QUERY: "event_query",
}  # fmt: skip


class Misuse(Exception):
    """A use of CUDA that is undefined, or that CUDA would answer with an error."""


class _Marker:
    def __init__(self, stream: int):
        self.stream = stream
        self.done = False
        self.at = 0  # amount of work done so far on all streams


class StandIn:
    """Implements ``asyncdali.device.cuda.driver.Driver``. `calls` counts calls by name; `memory_limit` bytes can be allocated."""

    connections = 32
    array_type: type

    def __init__(self, devices: int = 1, memory_limit: int = 1 << 40):
        self._lock = threading.RLock()
        self._depth = 0
        self._freed: list[Any] = []  # freed by finalizers that ran in the middle of a call
        self._devices = devices
        self._limit = memory_limit
        self._memory: dict[int, np.ndarray] = {}
        self._pinned: dict[int, np.ndarray] = {}
        self._streams: dict[int, deque[Any]] = {0: deque()}
        self._events: dict[int, _Marker | None] = {}
        self._homes: dict[int, int] = {}  # the devices of streams, events and memory
        self._next = 1000
        self._chosen = threading.local()
        self._timers: set[int] = set()
        self._worked = 0
        self.calls: Counter[str] = Counter()
        self.broken: str | None = None
        self.fails: dict[str, int] = {}
        self._functions: dict[int, Any] = {}
        self._failures: dict[int, BaseException] = {}
        self._performer = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 3)(self._performed)
        self._performer_address = ctypes.cast(self._performer, ctypes.c_void_p).value
        self.codes: dict[Any, Any] = {}
        """Replaces code of other compilers: ``function(blocks, threads, arguments)``."""
        self.unordered: list[Any] = []
        """Work on no stream, in progress until the device is waited for."""

    @contextlib.contextmanager
    def _entered(self) -> Iterator[None]:
        with self._lock:
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
                while self._freed and not self._depth:
                    self._freed.pop(0)()

    # --- devices

    def device_count(self) -> int:
        return self._devices

    def use(self, device: int) -> None:
        if not 0 <= device < self._devices:
            raise Misuse(f"there is no device {device}")
        self._chosen.device = device

    def current(self) -> int:
        """1 for device 0; 0 for none."""
        device = getattr(self._chosen, "device", None)
        return 0 if device is None else device + 1

    def restore(self, context: int) -> None:
        self._chosen.device = context - 1 if context else None

    def properties(self, device: int) -> dict[str, Any]:
        return {"name": "stand-in", "memory": self._limit, "capability": (9, 0)}

    def _called(self, name: str) -> None:
        if getattr(self._chosen, "device", None) is None:
            raise Misuse(f"{name} on a thread that has chosen no device")
        self.calls[name] += 1

    # --- memory

    def malloc(self, size: int) -> int:
        with self._entered():
            self._called("malloc")
            if sum(map(len, self._memory.values())) + size > self._limit:
                raise DeviceMemoryError(f"allocating {size} bytes of device memory failed: out of memory")
            memory = np.full(size, _POISON, np.uint8)
            self._memory[memory.ctypes.data] = memory
            self._homes[memory.ctypes.data] = self._chosen.device
            return memory.ctypes.data

    def free(self, address: int) -> None:
        with self._entered():
            if self._depth > 1:  # called by the garbage collector
                self._freed.append(lambda: self.free(address))
                return
            self.calls["free"] += 1
            for stream in list(self._streams):  # cudaFree waits for the device
                self._run_all(stream)
            if address not in self._memory:
                raise Misuse(f"{address:#x} is freed twice or was never allocated")
            self._memory.pop(address)[:] = _POISON

    def host_alloc(self, size: int) -> int:
        with self._entered():
            self._called("host_alloc")
            memory = np.full(size, _POISON, np.uint8)
            self._pinned[memory.ctypes.data] = memory
            return memory.ctypes.data

    def host_register(self, address: int, size: int) -> None:
        with self._entered():
            self._called("host_register")
            if any(start < address + size and address < start + len(held) for start, held in self._pinned.items()):
                raise Misuse(f"{size} bytes at {address:#x} are page-locked already")
            if "host_register" in self.fails:
                raise DriverError("host_register: refused", self.fails["host_register"], 0)
            self._pinned[address] = np.frombuffer((ctypes.c_uint8 * size).from_address(address), np.uint8)

    def host_unregister(self, address: int) -> None:
        with self._entered():
            if self._depth > 1:  # called by the garbage collector, perhaps while a dictionary of this object is searched
                self._freed.append(lambda: self.host_unregister(address))
                return
            self._called("host_unregister")
            if self._pinned.pop(address, None) is None:
                raise Misuse(f"{address:#x} is not page-locked")

    def host_free(self, address: int) -> None:
        with self._entered():
            if self._depth > 1:
                self._freed.append(lambda: self.host_free(address))
                return
            for stream in list(self._streams):
                self._run_all(stream)
            self._pinned.pop(address)[:] = _POISON

    @staticmethod
    def _inside(blocks: dict[int, np.ndarray], address: int, size: int) -> bool:
        return any(start <= address and address + size <= start + len(block) for start, block in blocks.items())

    # --- streams and events

    def stream_create(self) -> int:
        with self._entered():
            self._called("stream_create")
            self._next += 1
            self._streams[self._next] = deque()
            self._homes[self._next] = self._chosen.device
            return self._next

    def stream_destroy(self, stream: int) -> None:
        with self._entered():
            self._run_all(stream)
            del self._streams[stream]

    def _at_home(self, *things: int) -> None:
        """Streams, events and memory belong to the calling thread's device. Stream 0 exists on every device."""
        for thing in things:
            starts = [start for start, block in self._memory.items() if start <= thing < start + len(block)]
            home = self._homes.get(starts[0] if starts else thing)
            if home is not None and home != self._chosen.device:
                raise Misuse(f"{thing:#x} is of device {home}, the calling thread's is {self._chosen.device}")

    def _queue(self, stream: int, work: Any) -> None:
        if stream not in self._streams:
            raise Misuse(f"there is no stream {stream}")
        self._streams[stream].append(work)

    def stream_synchronize(self, stream: int) -> None:
        with self._entered():
            self._called("stream_synchronize")
            self._run_all(stream)

    def device_synchronize(self) -> None:
        with self._entered():
            self._called("device_synchronize")
            for stream in list(self._streams):
                self._run_all(stream)
            for write in self.unordered:
                write()
            self.unordered.clear()

    def stream_wait(self, stream: int, event: int) -> None:
        with self._entered():
            self._called("stream_wait")
            marker = self._events[event]
            if marker is not None:
                self._queue(stream, ("wait", marker))

    def event_create(self) -> int:
        with self._entered():
            self._called("event_create")
            self._next += 1
            self._events[self._next] = None
            self._homes[self._next] = self._chosen.device
            return self._next

    def event_destroy(self, event: int) -> None:
        del self._events[event]

    def timer_create(self) -> int:
        with self._entered():
            self._called("timer_create")
            self._next += 1
            self._events[self._next] = None
            self._homes[self._next] = self._chosen.device
            self._timers.add(self._next)
            return self._next

    def elapsed(self, begin: int, end: int) -> float:
        """Milliseconds between two events. Every piece of work takes one millisecond."""
        with self._entered():
            markers = [self._events[event] for event in (begin, end)]
            if not {begin, end} <= self._timers or any(marker is None or not marker.done for marker in markers):
                raise Misuse("events that cannot be timed, or were not reached")
            return float(markers[1].at - markers[0].at)

    def event_record(self, event: int, stream: int) -> None:
        with self._entered():
            self._called("event_record")
            self._at_home(event, stream)
            self._events[event] = marker = _Marker(stream)
            self._queue(stream, marker)

    def event_done(self, event: int) -> bool:
        with self._entered():
            marker = self._events[event]
            return marker is None or marker.done

    def event_synchronize(self, event: int) -> None:
        with self._entered():
            self._called("event_synchronize")
            marker = self._events[event]
            if marker is not None:
                self._run_until(marker)
            if self.broken:
                raise RuntimeError(self.broken)

    def _run_all(self, stream: int) -> None:
        marker = _Marker(stream)
        self._streams[stream].append(marker)
        self._run_until(marker)

    def _run_until(self, marker: _Marker) -> None:
        while not marker.done:
            self._run_one(marker.stream)

    def _run_one(self, stream: int) -> None:
        work = self._streams[stream]
        item = work[0]
        if isinstance(item, _Marker):
            item.done, item.at = True, self._worked
        elif item[0] == "wait":
            self._run_until(item[1])
        else:
            item[1]()
            self._worked += 1
        work.popleft()

    # --- work

    def copy(self, target: int, source: int, size: int, stream: int) -> None:
        with self._entered():
            self._called("copy")
            places = [self._inside(self._memory, address, size) for address in (target, source)]
            pinned = [self._inside(self._pinned, address, size) for address in (target, source)]
            if not any(places) and not all(pinned):
                raise Misuse(f"a copy of {size} bytes from {source:#x} to {target:#x} touches no device memory")
            if not places[1] and not pinned[1]:  # pageable memory is staged immediately
                self.calls["pageable uploads"] += 1
                staged = np.frombuffer(ctypes.string_at(source, size), np.uint8)
                self._queue(stream, ("copy", lambda: ctypes.memmove(target, staged.ctypes.data, size)))
            else:
                self._queue(stream, ("copy", lambda: self._copy_now(target, source, size)))
            if not places[0] and not pinned[0]:
                self.calls["pageable downloads"] += 1
                self._run_all(stream)

    def _copy_now(self, target: int, source: int, size: int) -> None:
        for address in (target, source):
            if not self._inside(self._memory, address, size) and not self._inside(self._pinned, address, size):
                raise Misuse(f"use after free: {size} bytes at {address:#x}")
        ctypes.memmove(target, source, size)

    def perform(self, commands: np.ndarray, brief: bool = False) -> None:
        """Perform commands one by one, as a program would call CUDA. `fails` gives the status of failing calls, by name."""
        with self._entered():
            for place, (kind, *arguments) in listed(commands):
                name = _COMMANDS[kind]
                if name in self.fails:
                    status = self.fails[name]
                    raise DriverError(f"{name}: status {status} ({status})", status, place)
                status = getattr(self, f"_do_{name}")(*arguments)
                if status:
                    raise DriverError(f"status {status}", status, place)

    def performer(self) -> tuple[int, int]:
        """A C function that calls :meth:`perform` on the calling thread."""
        return self._performer_address, 0

    def _performed(self, driver: int, begin: int, end: int) -> int:
        words = np.frombuffer(ctypes.string_at(begin, end - begin), np.int64)
        try:
            self.perform(words)
        except DriverError as error:
            self._failures[begin] = error.with_traceback(None)  # its frames lead to the caller's frames, which refer to a pipeline
            return error.place << 32 | error.status
        except BaseException as error:  # of the simulator: a thread reports it like an error of CUDA
            self._failures[begin] = DriverError(f"the simulator failed: {error!r}", 999, 0)
            return 1
        return 0

    def failure(self, commands: np.ndarray, result: int) -> BaseException:
        return self._failures.pop(commands.ctypes.data)

    def _do_stream_wait(self, stream: int, event: int) -> None:
        self.stream_wait(stream, event)

    def _do_event_record(self, stream: int, event: int) -> None:
        self.event_record(event, stream)

    def _do_copy(self, stream: int, target: int, source: int, size: int) -> None:
        self.copy(target, source, size, stream)

    def _do_launch(self, stream: int, function: int, x: int, y: int, block: int, shared: int, context: int, unused: int) -> None:
        self.launch(self._functions[function], (x, y), block, shared, stream, context)

    def _do_launch_each(self, stream: int, function: int, *words: int) -> None:
        blocks, threads, (count, each, places) = words[:3], words[3:6], words[6:]
        for k in range(count):
            where = [ctypes.c_int64.from_address(places + 8 * (k * each + i)).value for i in range(each)]
            row = np.array([ctypes.c_int64.from_address(at).value for at in where])
            self.launch_one(self._functions[function], blocks, threads, stream, row)

    def _do_event_synchronize(self, event: int) -> None:
        self.event_synchronize(event)

    def _do_event_query(self, event: int) -> int:
        """CUDA_ERROR_NOT_READY until all work before the event is done. Asking once lets one piece of work pass."""
        self._called("event_query")
        marker = self._events[event]
        if marker is not None and not marker.done:
            self._run_one(marker.stream)
        if self.broken:
            raise RuntimeError(self.broken)
        return 0 if marker is None or marker.done else 600

    def _do_call(self, function: int, *arguments: int) -> int:
        return self._functions[function](*arguments)

    def _handle(self, function: Any) -> Any:
        function.ptr = id(function)
        self._functions[function.ptr] = function
        return function

    def load(self, kernel: Kernel) -> Any:
        return self._handle(host_kernel(kernel))

    def launch(self, function: Any, grid: tuple[int, int], block: int, shared: int, stream: int, context: int) -> None:
        with self._entered():
            self._called("launch")
            self._at_home(stream, context)
            self._queue(stream, ("launch", lambda: function(context, grid[0], grid[1], block, shared)))

    def load_code(self, code: Any) -> Any:
        """Code of other compilers: the test's function in `codes` replaces it."""
        self.calls["load_code"] += 1
        return self._handle(self.codes[code])

    def launch_one(self, function: Any, blocks: Any, threads: Any, stream: int, arguments: np.ndarray) -> None:
        with self._entered():
            self._called("launch_each")
            self._queue(stream, ("launch", functools.partial(function, blocks, threads, arguments)))

    def export(self, array: Any, options: dict[str, Any]) -> Any:
        self.calls["export"] += 1
        return PyCapsule(self.view(array))

    # --- arrays

    def view(self, array: Any) -> LazyArray:
        return LazyArray(self, array.address, array.shape, array.dtype, array)

    def places(self, values: Sequence[Any]) -> None:
        """No places: each of these arrays names its own stream, unlike CuPy's arrays."""

    def dense(self, value: Any, device: int) -> LazyArray:
        if isinstance(value, PyCapsule):
            return value.array
        return value.map(lambda data: data)

    @contextlib.contextmanager
    def on_stream(self, device: int, stream: int) -> Iterator[None]:
        before, self._chosen.stream = getattr(self._chosen, "stream", None), stream
        try:
            yield
        finally:
            self._chosen.stream = before

    def current_stream(self) -> int:
        """The calling thread's device, for arrays. Misuse on a thread without a device."""
        found = getattr(self._chosen, "stream", None)
        if found is None:
            raise Misuse("an array is used outside of a function that the pipeline calls")
        return found


class PyCapsule:
    """Simulates a DLPack capsule."""

    def __init__(self, array: LazyArray):
        self.array = array


class LazyArray:
    """Simulates a CuPy array: device memory, and functions of its contents that run when the current stream reaches them.

    Its memory is freed as in CuPy's pool: in the order of the stream that it was allocated on, whichever streams read it. `strides` makes
    an array that is not dense.
    """

    def __init__(self, driver: StandIn, address: int, shape: tuple[int, ...], dtype: np.dtype, owner: Any, stream: int | None = None):
        self._driver, self.address, self.shape, self.dtype, self._owner = driver, address, tuple(shape), np.dtype(dtype), owner
        self._stream = stream
        self.strides: tuple[int, ...] | None = None

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape, "typestr": self.dtype.str, "data": (self.address, False), "version": 3, "strides": self.strides,
            "stream": self._stream,
        }  # fmt: skip

    def map(self, function: Any, shape: tuple[int, ...] | None = None, dtype: Any = None, stream: int | None = None) -> LazyArray:
        """``function(contents)``, later; of `shape` and `dtype` (by default as this one), on `stream` (by default the current one)."""
        driver = self._driver
        stream = driver.current_stream() if stream is None else stream
        dtype = self.dtype if dtype is None else np.dtype(dtype)
        shape = self.shape if shape is None else shape
        memory = np.full(max(int(np.prod(shape)) * dtype.itemsize, 1), _POISON, np.uint8)
        with driver._lock:  # threads of the pipeline look for memory
            driver._memory[memory.ctypes.data] = memory
        made = LazyArray(driver, memory.ctypes.data, shape, dtype, memory, stream)

        def work() -> None:
            source = np.frombuffer(ctypes.string_at(self.address, int(np.prod(self.shape)) * self.dtype.itemsize), self.dtype)
            data = np.asarray(function(source.reshape(self.shape)), dtype, order="C")
            assert data.shape == tuple(shape)
            memory[: data.nbytes] = data.reshape(-1).view(np.uint8)

        driver._queue(stream, ("function", work))
        weakref.finalize(made, driver._queue, stream, ("free", lambda: memory.fill(_POISON))).atexit = False
        return made


StandIn.array_type = LazyArray


class StandInNvjpeg:
    """Simulates the used part of ``nvjpeg_library.Library``: Pillow decodes. Broken files fail their batch.

    The call itself spoils the targets, and the pictures follow in the stream's order. So reading or writing a target too early or too late
    gives wrong data.
    """

    version = (13, 0, 0)

    def __init__(self, driver: StandIn, engines: int = 2):
        self.driver = driver
        self.engines = engines
        self.fails: dict[str, int] = {}
        """Failing calls by name, with the status."""
        self.skips: set[int] = set()
        """Numbers of pictures of a batch that are not decoded when the call's work has ended, although the call succeeds."""
        self.writes_late = False
        """Whether these pictures, and those of a batch that fails, are written later, in no order with streams."""
        self.status_behind = 0
        """A status of calls that have begun all their work."""
        self.ignores_waits = False
        """Whether pictures are written at once, before earlier work of the stream, and never later."""
        self._handles = 0
        self._addresses: dict[str, Any] = {}
        self._counts: dict[int, int] = {}
        self.open: set[int] = set()

    def handle(self, name: str, *arguments: Any) -> int:
        self.driver.calls[f"nvjpeg{name}"] += 1
        self._fail(name)
        self._handles += 1
        self.open.add(self._handles)
        return self._handles

    def address(self, name: str) -> int:
        """Wrap a function that takes some of six arguments and returns a status."""

        def function(*arguments: int) -> int:
            try:
                self.call(name, *arguments[: len(nvjpeg_library._SIGNATURES[name])])
            except NvjpegError as error:
                return error.status
            return 0

        return self._addresses.setdefault(name, self.driver._handle(function)).ptr

    def call(self, name: str, *arguments: Any) -> None:
        self.driver.calls[f"nvjpeg{name}"] += 1
        self._fail(name)
        if name == "GetHardwareDecoderInfo":
            for address, value in zip(arguments[1:], (self.engines, 1), strict=True):
                ctypes.c_uint32.from_address(address).value = value
        elif name == "JpegStateDestroy" or name == "Destroy":
            self.open.remove(arguments[0])
        elif name == "DecodeBatchedInitialize":
            self._counts[arguments[1]] = arguments[2]
        elif name == "DecodeBatched":
            self._decode(*arguments)

    def _fail(self, name: str) -> None:
        if name in self.fails:
            raise NvjpegError(name, self.fails[name])

    def _decode(self, handle: int, state: int, data: int, lengths: int, images: int, stream: int) -> None:
        count = self._counts[state]
        addresses = np.ctypeslib.as_array((ctypes.c_int64 * count).from_address(data)).copy()
        sizes = np.ctypeslib.as_array((ctypes.c_int64 * count).from_address(lengths)).copy()
        places = np.frombuffer(ctypes.string_at(images, 64 * count), IMAGE)
        for k, (address, size, place) in enumerate(zip(addresses.tolist(), sizes.tolist(), places, strict=True)):
            try:
                picture = Image.open(io.BytesIO(ctypes.string_at(address, size)))
                picture.load()
            except Exception:
                raise NvjpegError("DecodeBatched", 3) from None
            pixels = np.ascontiguousarray(np.asarray(picture.convert("RGB")))
            assert int(place["pitch"][0]) == pixels.strides[0]
            target = int(place["channel"][0])
            write = functools.partial(ctypes.memmove, target, pixels.ctypes.data, pixels.nbytes)
            if self.writes_late:
                self.driver.unordered.append(functools.partial(ctypes.memset, target, _POISON, pixels.nbytes))
            if k in self.skips:
                continue
            if self.ignores_waits:
                write()
            else:
                ctypes.memset(target, _POISON, pixels.nbytes)
                self.driver._queue(stream, ("decode", write, pixels))
        if self.status_behind:
            raise NvjpegError("DecodeBatched", self.status_behind)


def use(driver: StandIn, monkeypatch: Any) -> None:
    """Make the simulator the machine's CUDA for a test."""
    monkeypatch.setenv("ASYNCDALI_DEVICE", "cuda")
    monkeypatch.setattr(select, "_driver", driver)
