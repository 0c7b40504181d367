"""The user's device memory as batches of a pipeline: arrays that sources return or that are fed, without a copy to the host.

The user's stream and the pipeline's stream are ordered on the device. A copy waits for the earlier work of the user's stream. The later
work of the user's stream waits for the copy.

Arrays that are used in place stay alive until every stream of the pipeline has finished with them.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...batch import Batch, from_numpy_dtype
from ...types.conversions import FROM_DTYPE
from ..buffers import Returned
from .arrays import DeviceArray
from .commands import Commands
from .memory import LEGACY_STREAM, CudaEvent, DeviceBuffer
from .user_arrays import ReturnedArray, array_interface, is_dense

if TYPE_CHECKING:
    from .device import CudaDevice

_ON_CUDA = (2, 13)  # kDLCUDA, kDLCUDAManaged
_LEGACY_HANDLE = 1  # cudaStreamLegacy: the default stream in array interfaces


class Lent(ReturnedArray):
    """An array of the user: like :class:`ReturnedArray`, with the `stream` that uses it outside of the pipeline (None: not known).

    `ours`: the pipeline's stream has made the array dense, and it is complete after that stream's work.
    """

    __slots__ = ("ours", "stream")

    def __init__(self, address: int, shape: tuple[int, ...], dtype: np.dtype, keep: object, stream: int | None, ours: bool = False):
        super().__init__(address, shape, dtype, keep)
        self.stream, self.ours = stream, ours


class _Together:
    """Arrays of one batch that one stream of the user makes. They are kept, and released, together."""

    __slots__ = ("address", "arrays")

    def __init__(self, arrays: list[Any]) -> None:
        self.address = 0
        self.arrays = arrays


class FedArrays:
    """Accepts the arrays for one pipeline's external inputs. Called from any thread that feeds or asks sources."""

    def __init__(self, device: CudaDevice):
        self._device = device
        self._driver = device.driver
        self._handle = device.copy_stream
        self._returned = Returned()
        self._kept: list[tuple[Any, list[CudaEvent]]] = []
        self._lock = threading.Lock()  # protects _kept: several threads may feed

    @staticmethod
    def has(value: object) -> bool:
        """Whether an array, DLPack object or capsule is in a GPU's memory."""
        if isinstance(value, (np.ndarray, np.generic)):
            return False
        return getattr(value, "__cuda_array_interface__", None) is not None or _place(value)[0] in _ON_CUDA

    def first_elsewhere(self, values: Sequence[object]) -> int | None:
        """The place of the first value that is not in a GPU's memory; None: all are."""
        kind = self._driver.array_type
        return next((k for k, value in enumerate(values) if type(value) is not kind and not self.has(value)), None)

    def owns(self, memory: object) -> bool:
        """Whether a tensor list is in this GPU's memory."""
        return self._device.memory.owns(memory)

    def find(self, values: Sequence[object], stream: int | None) -> list[Lent]:
        """The places of arrays. `stream` is the handle of the user's stream; None: the stream that each array names.

        RuntimeError for arrays of another GPU.
        """
        with self._device.entered():
            return [self._found(value, stream) for value in values]

    def alike(self, values: Sequence[object], stream: int | None, no_copy: bool) -> Batch | None:
        """:meth:`find` and :meth:`batch` at once, for dense arrays of CuPy that have one element type and rank; None for other values.

        An object per array would take half of the time in which a small batch is made.
        """
        if type(values[0]) is not self._driver.array_type:
            return None
        places = self._driver.places(values)
        kind = None if places is None else FROM_DTYPE.get(places.dtype)
        if places is None or kind is None:
            return None
        for index in places.devices:
            self._check_index(index)
        with self._device.entered():
            self.settle()
            source = Batch(places.shapes, kind, "", places.addresses, device="gpu")
            lender = self._driver.current_stream() if stream is None else stream
            source.owner = self._borrowed(list(values), places.size, lender)
            if not no_copy:
                return self._copied(source, {lender})
            source.reused = True
            return source

    def batch(self, found: Sequence[Lent], whole: bool, no_copy: bool) -> Batch:
        """A batch of arrays of one type and rank; with `whole`, of the rows of the only array. With `no_copy` the arrays are used in place
        (marked as `reused`), otherwise copied.

        If the user's stream is not known, data must be complete or on the default stream, and the host waits until it is copied.
        TypeError for element types without a DALIDataType.
        """
        with self._device.entered():
            self.settle()
            source = self._where_they_lie(found, whole)
            if not no_copy:
                return self._copied(source, {lent.stream for lent in found})
            source.reused = True
            return source

    def batch_of(self, source: Batch, no_copy: bool) -> Batch:
        """Like :meth:`batch`, for a pipeline's output on this GPU."""
        if no_copy:
            shared = Batch(
                source.shapes, source.dtype, source.layout, source.addresses, source.memory_owner, contiguous=source.contiguous,
                source_info=source.source_info,
            )  # fmt: skip
            shared.reused = True
            return shared
        with self._device.entered():
            self.settle()
            return self._copied(source, set())

    # --- places of arrays

    def _found(self, value: object, stream: int | None) -> Lent:
        self._check_device(value)
        if isinstance(value, DeviceArray):
            return Lent(value.address, value.shape, value.dtype, value, self._handle)  # its buffers already record which streams use them
        interface = array_interface(value)
        lender = self._named(value, interface) if stream is None else stream
        keep, ours = value, interface is None or not is_dense(interface)
        if ours:
            # CuPy accepts DLPack objects in the order of its current stream, and copies data that is not dense.
            if lender is not None:
                self._wait(self._handle, self._device.events.record(lender))
            with self._driver.on_stream(self._device.index, self._handle):
                dense = self._driver.dense(value, self._device.index)
            keep, interface = (value, dense), dense.__cuda_array_interface__
        assert interface is not None
        return Lent(int(interface["data"][0] or 0), tuple(interface["shape"]), np.dtype(interface["typestr"]), keep, lender, ours)

    def _check_device(self, value: object) -> None:
        kind, index = _place(value)
        if kind in _ON_CUDA:
            self._check_index(index)

    def _check_index(self, index: int) -> None:
        if index != self._device.index:
            raise RuntimeError(f"the data is on GPU {index}, the pipeline runs on GPU {self._device.index}: copy the data there first")

    def _named(self, value: object, interface: dict[str, Any] | None) -> int | None:
        if type(value).__module__.partition(".")[0] == "torch":  # torch's array interface has a version without a stream
            return int(sys.modules["torch"].cuda.current_stream(self._device.index).cuda_stream)
        return None if interface is None else _stream_in(interface)

    def _where_they_lie(self, found: Sequence[Lent], whole: bool) -> Batch:
        """The user's memory as a batch, ordered after the earlier work of the users' streams."""
        owners: list[Any] = []
        lenders: dict[int, list[Lent]] = {}
        for lent in found:
            if isinstance(lent.keep, DeviceArray):
                owners.append(lent.keep.owner)
                continue
            handle = self._handle if lent.ours else LEGACY_STREAM if lent.stream is None else lent.stream
            lenders.setdefault(handle, []).append(lent)
        for handle, together in lenders.items():
            owners.append(self._borrowed(together, sum([lent.nbytes for lent in together]), handle))
        samples = found[0].samples() if whole else found
        ndim = len(found[0].shape) - whole
        shapes = np.array([sample.shape for sample in samples], np.int64).reshape(len(samples), ndim)
        addresses = np.array([sample.address for sample in samples], np.int64)
        return Batch(shapes, from_numpy_dtype(found[0].dtype), "", addresses, owners, contiguous=whole, device="gpu")

    def _borrowed(self, arrays: list[Any], size: int, handle: int) -> DeviceBuffer:
        """The owner of arrays of one batch that the user's stream `handle` makes: one for all, because each has its own bookkeeping."""
        buffer = DeviceBuffer(_Together(arrays), self._returned, size, handle)
        buffer.readers, buffer.ready = set(), self._device.events.record(handle)
        return buffer

    def _copied(self, source: Batch, lenders: set[int | None]) -> Batch:
        """A copy in the pipeline's memory, made in the order of the `lenders`' streams."""
        device = self._device
        copy = Batch(source.shapes, source.dtype, source.layout, device="gpu", source_info=source.source_info)
        commands = Commands(self._driver, self._handle)
        buffer = device.pool.allocate(int(source.sizes().sum()), commands)
        copy.place(buffer, buffer.address)
        device.order([source], self._handle)
        passing: list[DeviceBuffer] = []
        device.copy_samples(buffer.address, source, commands, passing, to_device=True)
        buffer.ready = device.events.last(commands)
        for part in passing:
            part.passed(self._handle, buffer.ready)
        with self._lock:
            self._kept.append((source.memory_owner, [buffer.ready]))
        for lender in lenders:
            if lender is not None and lender != self._handle:
                self._wait(lender, buffer.ready)
        if None in lenders:
            buffer.ready.wait()
        return copy

    def _wait(self, stream: int, event: CudaEvent) -> None:
        commands = Commands(self._driver, stream)
        commands.wait(event)
        commands.perform()

    # --- lifetimes

    def settle(self) -> None:
        """Release arrays that no stream reads any more, and arrays whose last batch is gone, after their readers have finished."""
        with self._lock:
            while self._returned:
                lent, readers, behind = self._returned.popleft()
                events = [event for _, event in behind]
                for stream in readers:
                    if stream != LEGACY_STREAM:
                        events.append(self._device.events.record(stream))
                self._kept.append((lent, events))
            before, self._kept = self._kept, []
            item = None
            for item in before:
                for event in item[1]:
                    if not event.done():
                        self._kept.append(item)
                        break
        del before, item  # without the lock, because this may run the user's finalisers


def _stream_in(interface: dict[str, Any]) -> int | None:
    """The stream that an array names; None: it names none."""
    named = interface.get("stream")
    return None if named is None else LEGACY_STREAM if named == _LEGACY_HANDLE else int(named)


def _place(value: object) -> tuple[int, int]:
    """DLPack's device type and number of an object or bare capsule; (0, 0) if the object does not have them."""
    where = getattr(value, "__dlpack_device__", None)
    if where is not None:
        kind, index = where()
        return int(kind), int(index)
    if type(value).__name__ != "PyCapsule":
        return 0, 0
    api, handle = ctypes.pythonapi, ctypes.py_object(value)
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    for name, at in ((b"dltensor", 8), (b"dltensor_versioned", 40)):  # name of the struct, and offset of its DLDevice
        if api.PyCapsule_IsValid(handle, name):
            address = api.PyCapsule_GetPointer(handle, name)
            return ctypes.c_int32.from_address(address + at).value, ctypes.c_int32.from_address(address + at + 4).value
    return 0, 0
