"""The device arrays behind a GPU's tensor lists, and their access to device memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from .commands import Commands
from .memory import LEGACY_STREAM, CudaEvent, DeviceBuffer

if TYPE_CHECKING:
    from ...batch import Batch
    from .device import CudaDevice

_ON_CUDA = 2  # kDLCUDA


class DeviceArray:
    """A dense array in device memory that keeps `owner` alive. It has a shape and a type, and no arithmetic."""

    __slots__ = ("__weakref__", "address", "device", "dtype", "memory", "owner", "shape")

    def __init__(self, memory: CudaMemory, address: int, shape: Sequence[int], dtype: np.dtype, owner: object):
        self.memory, self.address, self.owner = memory, address, owner
        self.shape = tuple(int(extent) for extent in shape)
        self.dtype = np.dtype(dtype)
        self.device = memory.device.index

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    def reshape(self, *shape: Any) -> DeviceArray:
        extents = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        return DeviceArray(self.memory, self.address, extents, self.dtype, self.owner)

    def view(self, dtype: Any) -> DeviceArray:
        kind = np.dtype(dtype)
        shape = self.shape
        if kind.itemsize != self.dtype.itemsize:
            shape = (*shape[:-1], shape[-1] * self.dtype.itemsize // kind.itemsize)
        return DeviceArray(self.memory, self.address, shape, kind, self.owner)

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        """The data is complete, or ordered on the stream that was given to `run`: no stream needs to wait."""
        self.memory.seen(self, LEGACY_STREAM)
        address = self.address if self.nbytes else 0
        return {"shape": self.shape, "typestr": self.dtype.str, "data": (address, False), "version": 3, "strides": None, "stream": None}

    def __dlpack__(self, *, stream: int | None = None, **options: object) -> Any:
        """A capsule. The consumer's `stream` (None: the legacy default stream, -1: none) waits for the data; the host does not."""
        driver, given = self.memory.device.driver, {name: value for name, value in options.items() if value is not None}
        if stream == -1:
            with self.memory.device.entered():
                return driver.export(self, given)
        handle = LEGACY_STREAM if stream in (None, 0, 1) else int(stream)
        self.memory.order(self, handle)
        with self.memory.device.entered(), driver.on_stream(self.device, handle) if given.get("copy") else nullcontext():
            return driver.export(self, given)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (_ON_CUDA, self.device)


class CudaMemory:
    """Access of tensors to device memory; the counterpart of :class:`asyncdali.tensors.host_memory.HostMemory`."""

    def __init__(self, device: CudaDevice):
        self.device = device

    def owns(self, memory: object) -> bool:
        """Whether a tensor list is in this GPU's memory."""
        return isinstance(memory, CudaMemory) and memory.device.index == self.device.index

    def wrap(self, address: int, shape: Sequence[int], dtype: np.dtype, owner: object) -> DeviceArray:
        return DeviceArray(self, address, shape, dtype, owner)

    def sample(self, batch: Batch, index: int) -> DeviceArray:
        from ...batch import storage_dtype

        return self.wrap(int(batch.addresses[index]), batch.shapes[index].tolist(), storage_dtype(batch.dtype), batch.memory_owner)

    def empty(self, size: int) -> DeviceArray:
        commands = self._commands()
        with self.device.entered():
            buffer = self.device.pool.allocate(size, commands)
            commands.perform()
        return DeviceArray(self, buffer.address, (size,), np.dtype(np.uint8), buffer)

    @staticmethod
    def address(array: Any) -> int:
        return array.address if isinstance(array, DeviceArray) else array.ctypes.data

    def _commands(self, stream: int | None = None) -> Commands:
        """The commands' target for `stream`; None: the device's own stream for copies."""
        return Commands(self.device.driver, self.device.copy_stream if stream is None else stream)

    def order(self, array: DeviceArray, stream: int) -> None:
        """`stream` waits for the data, and the memory is not reused before `stream` has finished with it."""
        self.seen(array, stream)
        commands = self._commands(stream)
        for buffer in buffers_of(array.owner):
            if buffer.ready is not None:
                commands.wait(buffer.ready)
        with self.device.entered():
            commands.perform()

    @staticmethod
    def seen(array: DeviceArray, stream: int) -> None:
        """`stream` uses the data: the memory is not reused before `stream` has finished with it."""
        for buffer in buffers_of(array.owner):
            buffer.readers.add(stream)

    def to_host(self, array: DeviceArray) -> np.ndarray:
        """A copy in host memory, complete on return."""
        device = self.device
        with device.entered():
            copy = device.staging.allocate(max(array.nbytes, 1))[: array.nbytes]
            if array.nbytes:
                self.order(array, device.copy_stream)
                self.copy(copy.ctypes.data, array.address, array.nbytes)
        return copy.view(array.dtype).reshape(array.shape)

    def copy(self, target: int, source: int, size: int, stream: int | None = None, blocking: bool = True) -> None:
        """Copy bytes between addresses, in the order of `stream`. None: on the device's own stream, and wait for it."""
        with self.device.entered():
            commands = self._commands(stream)
            commands.copy(target, source, size)
            commands.perform()
            if blocking or stream is None:
                self.device.driver.stream_synchronize(commands.stream)

    def copy_samples(self, target: int, batch: Batch, stream: int | None = None, blocking: bool = True) -> None:
        """Copy all samples of `batch`, one after another, to `target`, in the order of `stream` (see :meth:`copy`)."""
        with self.device.entered():
            commands = self._commands(stream)
            self.device.order([batch], commands.stream)
            passing: list[DeviceBuffer] = []  # the pool waits for the stream before it lends their memory again
            self.device.copy_samples(target, batch, commands, passing)
            commands.perform()
            if blocking or stream is None:
                self.device.driver.stream_synchronize(commands.stream)


def pieces(target: int, batch: Batch) -> list[tuple[int, int, int]]:
    """(to, from, bytes) of the copies that place the samples of `batch` at `target`. Adjacent samples share a copy."""
    sizes = batch.sizes()
    filled = np.flatnonzero(sizes)
    sources, sizes = batch.addresses[filled], sizes[filled]
    ends = np.cumsum(sizes)
    first = np.flatnonzero(np.append(True, sources[1:] != sources[:-1] + sizes[:-1])) if len(filled) else filled
    begins = ends[first] - sizes[first]
    lengths = np.diff(np.append(begins, ends[-1:]))
    return list(zip((begins + target).tolist(), sources[first].tolist(), lengths.tolist(), strict=True))


def pending_events(batches: Sequence[Batch]) -> list[CudaEvent]:
    """The events, each once, that the GPU has to reach before these batches are made, unless it is known that it has."""
    events: list[CudaEvent] = []
    for batch in batches:
        for buffer in buffers_of(batch.memory_owner):
            event = buffer.ready
            if event is not None and not event.is_over() and event not in events:
                events.append(event)
    return events


def buffers_of(owner: object) -> list[DeviceBuffer]:
    """The device buffers of an owner: the owner itself, or those of a list of owners."""
    if type(owner) is DeviceBuffer:
        return [owner]
    if isinstance(owner, (list, tuple)):
        return [buffer for part in owner for buffer in buffers_of(part)]
    return buffers_of(owner.owner) if isinstance(owner, DeviceArray) else []
