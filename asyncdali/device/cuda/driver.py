"""The calls of CUDA that the device makes, implemented with CuPy.

All other code uses integers: addresses, and handles of streams and events. So the tests run it on a stand-in that has its own "device"
memory, delays asynchronous work, and fails on a use after free or a missing event.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple, Protocol

import numpy as np

from ...batch import dense_shapes
from ...compiled.addresses import address_of
from ...system import connections
from ..launch import Code, Kernel, source_of
from . import command_kernels as kernels
from . import command_tables as tables
from . import compiler


class ArrayPlaces(NamedTuple):
    """The places of arrays of one element type and rank: ``addresses`` int64[arrays], ``shapes`` int64[arrays, rank], the numbers of their
    GPUs, and the bytes of all."""

    addresses: np.ndarray
    shapes: np.ndarray
    dtype: np.dtype
    devices: set[int]
    size: int


class Driver(Protocol):
    """A process's access to its GPUs. Calls concern the device that the calling thread has chosen with :meth:`use`.

    connections   queues between the process and a GPU: streams that share a queue wait for each other
    array_type    CuPy's class of arrays, which are always in a GPU's memory

    Commands for streams go through :meth:`perform`: words as in :mod:`.command_tables`, made by :class:`.commands.Commands`. The results of
    `load` and `load_code` have their handle in `ptr`, and live as long as they are referenced.
    """

    connections: int
    array_type: type[Any]

    def device_count(self) -> int: ...
    def use(self, device: int) -> None: ...
    def current(self) -> int: ...
    def restore(self, context: int) -> None: ...
    def properties(self, device: int) -> dict[str, Any]: ...
    def malloc(self, size: int) -> int: ...
    def free(self, address: int) -> None: ...
    def host_alloc(self, size: int) -> int: ...
    def host_free(self, address: int) -> None: ...
    def host_register(self, address: int, size: int) -> None: ...
    def host_unregister(self, address: int) -> None: ...
    def stream_create(self) -> int: ...
    def stream_destroy(self, stream: int) -> None: ...
    def stream_synchronize(self, stream: int) -> None: ...
    def device_synchronize(self) -> None: ...
    def event_create(self) -> int: ...
    def event_destroy(self, event: int) -> None: ...
    def event_record(self, event: int, stream: int) -> None: ...
    def event_done(self, event: int) -> bool: ...
    def event_synchronize(self, event: int) -> None: ...
    def timer_create(self) -> int: ...
    def elapsed(self, begin: int, end: int) -> float: ...
    def perform(self, commands: np.ndarray, brief: bool = False) -> None: ...
    def performer(self) -> tuple[int, int]: ...
    def failure(self, commands: np.ndarray, result: int) -> DriverError: ...
    def load(self, kernel: Kernel) -> Any: ...
    def load_code(self, code: Code) -> Any: ...
    def export(self, array: object, options: dict[str, Any]) -> Any: ...
    def view(self, array: object) -> Any: ...
    def dense(self, value: object, device: int) -> Any: ...
    def places(self, values: Sequence[object]) -> ArrayPlaces | None: ...
    def current_stream(self) -> int: ...
    def on_stream(self, device: int, stream: int) -> AbstractContextManager[object]: ...


class DeviceMemoryError(MemoryError):
    """There is not enough device memory, or not enough pinned memory. The message names the request."""


class DriverError(RuntimeError):
    """A call of CUDA's driver failed with `status`. `place`: the command's position in words. `owner`: the command's owner, if known."""

    def __init__(self, what: str, status: int, place: int):
        super().__init__(what)
        self.status, self.place = status, place
        self.owner: Any = None


class OutdatedDriver(RuntimeError):
    """The driver is older than the one that CuPy needs."""


def _version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


_NO_DEVICE, _INSUFFICIENT_DRIVER = 100, 35  # cudaErrorNoDevice, cudaErrorInsufficientDriver
_NON_BLOCKING = 1  # cudaStreamNonBlocking
_EVENT_FLAGS = 1 | 2  # cudaEventBlockingSync | cudaEventDisableTiming
_TIMER_FLAGS = 1
_PORTABLE = 1  # cudaHostRegisterPortable
_SHAPE, _DTYPE, _ADDRESS, _DEVICE, _SIZE = map(attrgetter, ("shape", "dtype", "data.ptr", "data.device_id", "nbytes"))


class CupyDriver:
    """A :class:`Driver` that uses CuPy. The constructor imports CuPy, and the first call initialises CUDA; only `build()` does this."""

    _is_dense: Callable[[Any], Any] = attrgetter("flags.c_contiguous")
    """Whether an array is C-contiguous. CuPy's `flags` make an object per array, a third of the time of :meth:`places`."""

    def __init__(self) -> None:
        import cupy

        connections.request()
        self.connections = connections.number()
        # Calls keep the interpreter lock, because asking for a context is quicker than reacquiring the lock.
        self._library = ctypes.PyDLL("libcuda.so.1")
        self._cupy: Any = cupy
        self.array_type: type[Any] = cupy.ndarray
        if hasattr(cupy.ndarray, "_c_contiguous"):
            self._is_dense = attrgetter("_c_contiguous")
        self._runtime: Any = cupy.cuda.runtime
        self._out_of_memory = 2  # cudaErrorMemoryAllocation
        runtime = self._runtime
        self.use, self.free, self.host_free = runtime.setDevice, runtime.free, runtime.freeHost
        self.stream_destroy, self.stream_synchronize = runtime.streamDestroy, runtime.streamSynchronize
        self.device_synchronize = runtime.deviceSynchronize
        self.event_destroy, self.event_synchronize = runtime.eventDestroy, runtime.eventSynchronize
        self.event_record, self._event_query = runtime.eventRecord, runtime.eventQuery

    def current(self) -> int:
        """The calling thread's context, for :meth:`restore`; 0 if it has none. A device number could not express "none"."""
        return self._current_context(self._context_getter)

    def restore(self, context: int) -> None:
        """Make a context the calling thread's again; 0: none."""
        self._library.cuCtxSetCurrent(ctypes.c_void_p(context))

    def device_count(self) -> int:
        """Number of devices. OutdatedDriver if the driver is too old for CuPy."""
        runtime = self._runtime
        try:
            return int(runtime.getDeviceCount())
        except runtime.CUDARuntimeError as error:
            if error.status == _NO_DEVICE:
                return 0
            if error.status == _INSUFFICIENT_DRIVER:
                supported, needed = runtime.driverGetVersion(), runtime.runtimeGetVersion()
                raise OutdatedDriver(
                    f"the CUDA driver is too old: it supports CUDA {_version(supported)}, this CuPy needs {_version(needed)} (update the "
                    "driver, or install the other one of asyncdali[cuda12] and asyncdali[cuda13])"
                ) from None
            raise

    def properties(self, device: int) -> dict[str, Any]:
        found = self._runtime.getDeviceProperties(device)
        return {"name": found["name"].decode(), "memory": found["totalGlobalMem"], "capability": (found["major"], found["minor"])}

    def _allocated(self, what: str, call: Any, *args: Any) -> int:
        try:
            return int(call(*args))
        except self._runtime.CUDARuntimeError as error:
            if error.status == self._out_of_memory:
                raise DeviceMemoryError(f"allocating {args[0]} bytes of {what} failed: {error}") from None
            raise

    def malloc(self, size: int) -> int:
        return self._allocated("device memory", self._runtime.malloc, size)

    def host_alloc(self, size: int) -> int:
        return self._allocated("pinned memory", self._runtime.hostAlloc, size, 0)

    def host_register(self, address: int, size: int) -> None:
        """Page-lock memory, for all devices. Its pages must exist."""
        self._runtime.hostRegister(address, size, _PORTABLE)

    def host_unregister(self, address: int) -> None:
        self._runtime.hostUnregister(address)

    def stream_create(self) -> int:
        return int(self._runtime.streamCreateWithFlags(_NON_BLOCKING))

    def event_create(self) -> int:
        return int(self._runtime.eventCreateWithFlags(_EVENT_FLAGS))

    def event_done(self, event: int) -> bool:
        return bool(self._event_query(event) == 0)

    def timer_create(self) -> int:
        """An event with a time, for :meth:`elapsed`."""
        return int(self._runtime.eventCreateWithFlags(_TIMER_FLAGS))

    def elapsed(self, begin: int, end: int) -> float:
        """Milliseconds between two timers that the device has passed."""
        return float(self._runtime.eventElapsedTime(begin, end))

    @functools.cached_property
    def _calls(self) -> np.ndarray:
        """Addresses of the driver's functions."""
        functions = {field.name: ctypes.cast(self._library[field.name], ctypes.c_void_p).value for field in tables.DRIVER_CALLS.fields}
        return tables.DRIVER_CALLS.make(**functions)[0]

    @functools.cached_property
    def _calls_address(self) -> int:
        return address_of(self._calls)

    @functools.cached_property
    def _context_getter(self) -> int:
        return ctypes.cast(self._library.cuCtxGetCurrent, ctypes.c_void_p).value or 0

    @functools.cached_property
    def _current_context(self) -> Callable[[int], int]:
        return kernels.current_context.held_entry

    @functools.cached_property
    def _perform_held(self) -> Callable[[int, int, int], int]:
        return kernels.perform.held_entry

    def perform(self, commands: np.ndarray, brief: bool = False) -> None:
        """Execute `commands`, int64[words]. DriverError of the first that fails.

        The interpreter lock is released, unless the commands are `brief`: they take microseconds and do not wait.
        """
        at = address_of(commands)
        result = (self._perform_held if brief else kernels.perform)(self._calls_address, at, at + commands.nbytes)
        if result:
            raise self.failure(commands, result)

    def performer(self) -> tuple[int, int]:
        """Address of the function that performs commands without the interpreter, and its first argument."""
        return kernels.perform.address, self._calls_address

    def failure(self, commands: np.ndarray, result: int) -> DriverError:
        """The error of a result of :meth:`performer` that is not 0."""
        place, status = result >> 32, result & 0xFFFFFFFF
        kind = int(commands[place])
        if kind == tables.CALL:  # the caller knows the meaning of its statuses
            return DriverError(f"status {status}", status, place)
        text = f"{self._text('Name', status)}: {self._text('String', status)}"
        return DriverError(f"{tables.CALLED[kind]}: {text} ({status})", status, place)

    def _text(self, what: str, status: int) -> str:
        """The name of a status of the driver, and its meaning."""
        text = ctypes.c_char_p()
        self._library[f"cuGetError{what}"](status, ctypes.byref(text))
        return (text.value or b"unknown error").decode()

    def load(self, kernel: Kernel) -> Any:
        """The compiled kernel for the current device; RuntimeError with the compiler's log."""
        try:
            module = self._cupy.cuda.function.Module()
            module.load(compiler.machine_code(self._cupy, source_of(kernel)))
            return module.get_function(kernel.entry)
        except Exception as error:
            macros = ", ".join(f"{name}={value}" for name, value in kernel.defines)
            raise RuntimeError(f"the kernel {kernel.entry} of {kernel.source.name} ({macros}) does not compile: {error}") from error

    def load_code(self, code: Code) -> Any:
        """The kernel of a PTX text, loaded for the current device by the driver. RuntimeError with the driver's reason."""
        try:
            module = self._cupy.cuda.function.Module()
            module.load(code.ptx.encode())
            return module.get_function(code.entry)
        except Exception as error:
            raise RuntimeError(
                f"the GPU's driver refuses the compiled kernel: {error} (PTX of a newer CUDA than the driver's, or functions that "
                "have to be linked)"
            ) from error

    def export(self, array: Any, options: dict[str, Any]) -> Any:
        """A DLPack capsule over a device array, whose order before its consumer is already ensured; over a copy with `copy`.

        The method of CuPy before version 14 takes `stream` only. So the capsule has no version, which every consumer accepts.
        """
        device = options.get("dl_device")
        if device is not None and (int(device[0]), int(device[1])) != array.__dlpack_device__():
            raise BufferError(f"a tensor on DLPack device {array.__dlpack_device__()} cannot be exported to device {tuple(device)}")
        view = self.view(array)
        return (view.copy() if options.get("copy") else view).__dlpack__(stream=-1)

    def view(self, array: Any) -> Any:
        """A CuPy array over the same memory. It keeps `array` alive."""
        cupy = self._cupy
        memory = cupy.cuda.UnownedMemory(array.address, max(array.nbytes, 1), array, array.device)
        return cupy.ndarray(array.shape, array.dtype, cupy.cuda.MemoryPointer(memory, 0))

    def dense(self, value: object, device: int) -> Any:
        """A C-contiguous CuPy array of device data: an array, a DLPack object or a capsule. Work goes to the current stream."""
        cupy = self._cupy
        if not hasattr(value, "__cuda_array_interface__"):
            value = cupy.from_dlpack(value if hasattr(value, "__dlpack__") else _Exported(value, device))
        return cupy.ascontiguousarray(value)

    def places(self, values: Sequence[Any]) -> ArrayPlaces | None:
        """The places of arrays, if all are dense arrays of CuPy that have one element type and rank and are not empty; otherwise None.

        CuPy makes a dictionary with a description of the type in every `__cuda_array_interface__`. Here each property is read once per
        array, without a loop in Python.
        """
        if set(map(type, values)) != {self.array_type} or not all(map(self._is_dense, values)):
            return None
        tuples = list(map(_SHAPE, values))
        count, ndim = len(tuples), len(tuples[0])
        if len(set(map(_DTYPE, values))) > 1:
            return None
        if tuples.count(tuples[0]) == count:
            shapes, size = dense_shapes(count, tuples[0]), count * values[0].nbytes
            if not size:
                return None
        elif set(map(len, tuples)) == {ndim}:
            sizes = list(map(_SIZE, values))
            if 0 in sizes:
                return None
            shapes, size = np.fromiter(chain.from_iterable(tuples), np.int64, count * ndim).reshape(count, ndim), sum(sizes)
        else:
            return None
        addresses = np.fromiter(map(_ADDRESS, values), np.int64, count)
        return ArrayPlaces(addresses, shapes, values[0].dtype, set(map(_DEVICE, values)), size)

    def current_stream(self) -> int:
        """The handle of CuPy's current stream, which all of its arrays name."""
        return int(self._cupy.cuda.get_current_stream().ptr)

    def on_stream(self, device: int, stream: int) -> AbstractContextManager[object]:
        """Make `stream` CuPy's current stream within the block."""
        kind = self._cupy.cuda.Stream
        within: AbstractContextManager[Any]
        if hasattr(kind, "from_external"):
            within = kind.from_external(_Handle(stream))
        else:
            within = self._cupy.cuda.ExternalStream(stream, device)
        return within


class _Handle:
    """A stream for libraries that call `__cuda_stream__`."""

    def __init__(self, handle: int):
        self._handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._handle


class _Exported:
    """A capsule for libraries that accept only objects."""

    def __init__(self, capsule: object, device: int):
        self._capsule, self._device = capsule, device

    def __dlpack__(self, **options: object) -> object:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self._device  # kDLCUDA
