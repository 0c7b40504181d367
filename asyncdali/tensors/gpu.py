"""TensorGPU and TensorListGPU, of a GPU or of the host device."""

from __future__ import annotations

import ctypes
import operator
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from ..batch import Batch
from ..types import DALIDataType
from .batches import as_tensors, batch_of_array, batch_of_tensors, dlpack_tensors, empty_batch, repeated
from .checks import check_readable, checked_layout
from .cpu import TensorCPU, TensorListCPU
from .dlpack import CPU_DEVICE, export
from .foreign import dense_array
from .host_memory import HOST
from .tensor import Tensor
from .tensor_list import TensorList

if TYPE_CHECKING:
    from typing import Self


class _OnDevice:
    """The place of GPU data: the device's memory, its number, and the stream on which the data is ordered."""

    __slots__ = ()  # a class with two base classes may inherit slots from only one

    _memory: Any
    _device_id: int
    _stream: int | None

    def _on(self, memory: object, device_id: int | None, stream: object) -> Self:
        """Set the place of this object, and return the object."""
        self._memory, self._device_id, self._stream = memory, _device_number(device_id), stream_handle(stream)  # type: ignore[misc]
        return self

    def device_id(self) -> int:
        """Number of the device."""
        return self._device_id

    @property
    def stream(self) -> int | None:
        """Handle of the stream on which the data is ordered; None if there is none."""
        return self._stream


class TensorGPU(_OnDevice, Tensor):
    """A tensor of a GPU, or of the host device (then in plain memory, readable through DLPack).

    TensorGPU(obj, layout=None, device_id=None, stream=None) shares the memory of `obj`. On the host device `obj` is a host array, buffer,
    DLPack object or capsule, or another TensorGPU. Errors as for `TensorCPU`; RuntimeError for CUDA memory if there is no CUDA device.
    """

    __slots__ = ("_device_id", "_memory", "_stream")

    _device = "gpu"

    def __init__(self, object: object, layout: str | None = None, device_id: int | None = None, stream: object = None):
        self._array, self._dtype = _device_array(object)
        self._layout = checked_layout(layout, self._array.ndim, "Tensor")
        self._source_info = object.source_info() if isinstance(object, TensorGPU) else ""
        self._on(object._memory if isinstance(object, TensorGPU) else HOST, device_id, stream)

    def as_cpu(self) -> TensorCPU:
        """A copy in CPU memory, complete on return."""
        return TensorCPU._make(self._memory.to_host(self._array), self._dtype, self._layout, self.source_info())

    def copy_to_external(self, ptr: object, cuda_stream: object = None, non_blocking: bool = False, use_copy_kernel: bool = False) -> None:
        """Copy the bytes to device memory at `ptr` (ctypes.c_void_p or int), in the order of `cuda_stream`.

        On return the copy is complete; with `non_blocking` it is queued. `use_copy_kernel` has no effect. ValueError for a null pointer.
        """
        self._copy_out(ptr, stream=stream_handle(cuda_stream), blocking=not non_blocking)

    def _host(self) -> np.ndarray:
        check_readable(self._dtype)
        result: np.ndarray = self._memory.to_host(self._array)
        return result

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        """CUDA array interface; AttributeError on the host device, where there is no CUDA memory."""
        check_readable(self._dtype)
        try:
            result: dict[str, Any] = self._array.__cuda_array_interface__
            return result
        except AttributeError:
            raise AttributeError("a tensor of the host device has no __cuda_array_interface__: its memory is plain memory") from None

    def __dlpack__(
        self,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A DLPack capsule over this memory (a copy with `copy=True`).

        Raises BufferError for another `dl_device` than `__dlpack_device__` and TypeError for enumerations.
        """
        check_readable(self._dtype)
        if isinstance(self._array, np.ndarray):
            return export(self._array, max_version, dl_device, copy)
        # On a GPU the consumer's stream waits for the data; the host does not.
        return self._array.__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return CPU_DEVICE if isinstance(self._array, np.ndarray) else self._array.__dlpack_device__()

    def __array__(self, dtype: object = None, copy: bool | None = None) -> np.ndarray:
        raise TypeError("a TensorGPU is not read by numpy implicitly: call as_cpu()")

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("cannot pickle a TensorGPU: call as_cpu()")


class TensorListGPU(_OnDevice, TensorList):
    """A batch of tensors of a GPU, or of the host device.

    TensorListGPU(obj=None, layout=None, device_id=None, stream=None, contiguous=True): `obj` is an argument of `TensorGPU` (its first
    dimension counts samples), a list of TensorGPU or of such objects, another TensorListGPU, or None for an empty list. Errors as for
    `TensorListCPU`.
    """

    __slots__ = ("_device_id", "_memory", "_stream")

    _device = "gpu"
    _tensor = TensorGPU

    def __init__(
        self, object: object = None, layout: str | None = None, device_id: int | None = None, stream: object = None, contiguous: bool = True
    ):
        if isinstance(object, TensorListGPU):
            given = stream if stream is not None else object._stream
            self._on(object._memory, object._device_id, given)._batch = object._batch
        elif isinstance(object, (list, tuple)):
            tensors = as_tensors(object, TensorGPU)
            first = tensors[0] if tensors else None
            self._on(first._memory if first else HOST, first._device_id if first else device_id, stream)
            self._batch = batch_of_tensors(tensors, "TensorGPU", "gpu")
            if contiguous and tensors:
                self._batch = self._gathered()
        elif object is None:
            self._on(HOST, device_id, stream)._batch = empty_batch("gpu")
        else:
            tensor = object if isinstance(object, TensorGPU) else TensorGPU(object, None, device_id, stream)
            self._on(tensor._memory, tensor._device_id, tensor._stream)
            self._batch = batch_of_array(tensor._array, tensor._dtype, tensor._memory, "gpu")
        if layout is not None:
            self.set_layout(layout)

    @classmethod
    def _from_batch(cls, batch: Batch, device_id: int | None = None, stream: object = None, memory: object = HOST) -> Self:
        """A list over a placed batch of a device. `memory` is the device's counterpart of `HostMemory`."""
        return cls._placed(batch, _device_number(device_id), stream_handle(stream), memory)

    @classmethod
    def _placed(cls, batch: Batch, device_id: int, stream: int | None, memory: object) -> Self:
        """As :meth:`_from_batch`, for the number of a device and the handle of a stream."""
        tensors = cls.__new__(cls)
        tensors._batch, tensors._device_id, tensors._stream, tensors._memory = batch, device_id, stream, memory
        return tensors

    @staticmethod
    def from_dlpack_list(
        list_of_objects: list[Any], layout: str | None = None, stream: object = None, contiguous: bool = False
    ) -> TensorListGPU:
        """A list of DLPack objects of one type and rank; shares their memory unless `contiguous` asks for a copy in one piece.

        Raises TypeError for objects without DLPack and for different types, RuntimeError for different ranks and strided data.
        """
        tensors = dlpack_tensors(list_of_objects, TensorGPU)
        return TensorListGPU(tensors, layout, None, stream, contiguous)

    @staticmethod
    def broadcast(tensor: object, num_samples: int) -> TensorListGPU:
        """A list of `num_samples` times the same tensor, without copies. ValueError for a negative number."""
        tensor = tensor if isinstance(tensor, TensorGPU) else TensorGPU(tensor)
        return TensorListGPU._from_batch(repeated(tensor, num_samples), tensor._device_id, tensor._stream, tensor._memory)

    def _view(self, array: object, layout: str, source_info: str | tuple[Sequence[str], int] = "") -> TensorGPU:
        tensor = TensorGPU._make(array, self._batch.dtype, layout, source_info)
        return tensor._on(self._memory, self._device_id, self._stream)

    def _like(self, batch: Batch) -> Self:
        return self._from_batch(batch, self._device_id, self._stream, self._memory)

    @overload
    def __getitem__(self, index: int) -> TensorGPU: ...
    @overload
    def __getitem__(self, index: slice) -> TensorListGPU: ...
    def __getitem__(self, index: object) -> Any:
        """Sample `index` (negative counts from the end) as a TensorGPU over this memory, or the list of a slice's samples.

        Raises IndexError out of range and TypeError for other indices.
        """
        return self._getitem(index)

    def at(self, index: int) -> TensorGPU:
        """Sample `index` as a TensorGPU. Deprecated: use `[]`. Raises RuntimeError out of range (no negative numbers)."""
        warnings.warn("TensorListGPU.at() is deprecated: use [] instead", DeprecationWarning, stacklevel=2)
        result: TensorGPU = self._at(self._checked_index(index))
        return result

    def as_cpu(self) -> TensorListCPU:
        """A copy in CPU memory, in one piece, complete on return."""
        source = self._dense()
        size = int(source.sizes().sum())
        data = np.empty(0, np.uint8)
        if size:
            data = self._memory.to_host(self._memory.wrap(int(source.addresses[0]), (size,), np.dtype(np.uint8), source.memory_owner))
        batch = Batch(source.shapes, source.dtype, source.layout, source_info=source.source_info)
        batch.place(data)
        return TensorListCPU._from_batch(batch)

    def as_tensor(self) -> TensorGPU:
        """One tensor [samples, ...] over this memory, with "N" before the layout. Raises RuntimeError if shapes differ."""
        result: TensorGPU = self._as_tensor()
        return result

    def as_reshaped_tensor(self, shape: Sequence[int]) -> TensorGPU:
        """All samples, one after another, as a tensor of `shape`, with "N" before the layout if the rank fits it.

        Raises RuntimeError if the volume of `shape` is not that of the list.
        """
        result: TensorGPU = self._as_reshaped_tensor(shape)
        return result

    def copy_to_external(self, ptr: object, cuda_stream: object = None, non_blocking: bool = False, use_copy_kernel: bool = False) -> None:
        """Copy all samples, one after another, to device memory at `ptr` (ctypes.c_void_p or int), in the order of `cuda_stream`.

        On return the copy is complete; with `non_blocking` it is queued. `use_copy_kernel` has no effect. ValueError for a null pointer.
        """
        self._copy_out(ptr, stream=stream_handle(cuda_stream), blocking=not non_blocking)

    def __array__(self, dtype: object = None, copy: bool | None = None) -> np.ndarray:
        raise TypeError("a TensorListGPU is not read by numpy implicitly: call as_cpu()")

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("cannot pickle a TensorListGPU: call as_cpu()")


def _device_number(device_id: int | None) -> int:
    # DALI's constructors take -1 for "the current device"; the host device is number 0.
    number = 0 if device_id is None else operator.index(device_id)
    return max(number, 0)


def stream_handle(stream: Any) -> int | None:
    """An int handle from an int, ctypes pointer, `types.CUDAStream` or framework stream."""
    if stream is None:
        return None
    if isinstance(stream, ctypes.c_void_p):
        return stream.value
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1])
    for attribute in ("cuda_stream", "ptr", "handle"):
        if hasattr(stream, attribute):
            handle: int | None = getattr(stream, attribute)
            return handle
    return operator.index(stream)


def _device_array(value: object) -> tuple[Any, DALIDataType]:
    if isinstance(value, TensorGPU):
        return value._array, value._dtype
    if hasattr(value, "__cuda_array_interface__"):
        raise RuntimeError("CUDA memory needs a CUDA device; this is the host device")
    return dense_array(value)
