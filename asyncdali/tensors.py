"""Tensors and tensor lists: what `run` returns, and what users wrap their own data in.

A list is a view of a placed `Batch`: making one costs nothing per sample, and every view handed out (a tensor, a numpy array, a DLPack
capsule) keeps the memory alive. Memory is reached through a small interface (`HostMemory`), so that a CUDA device can give the GPU
classes arrays of its own; on the host device GPU tensors live in plain memory.
"""

from __future__ import annotations

import ctypes
import math
import operator
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from .batch import AddressView, Batch, storage_dtype
from .types import DALIDataType, TensorLayout, to_dali_type
from .types.conversions import STORAGE
from .types.enums import ENUMERATIONS

if TYPE_CHECKING:
    from typing import Self

__all__ = ["TensorCPU", "TensorGPU", "TensorListCPU", "TensorListGPU"]

_CPU_DEVICE = (1, 0)  # kDLCPU


class UnsupportedTypeError(TypeError, RuntimeError):
    """Data whose element type has no DALIDataType. (A TypeError; DALI reports some of these as RuntimeError.)"""


# ---------------------------------------------------------------------------------------------------------------------------
# Memory
# ---------------------------------------------------------------------------------------------------------------------------


class HostMemory:
    """How tensors reach plain memory.

    A CUDA device provides the same methods over arrays of its own that have numpy's shape, dtype, nbytes, reshape and view.
    `allocate` gives memory for copies (uint8 array of a size); a pool's is much cheaper than fresh pages.
    """

    def __init__(self, allocate: Callable[[int], np.ndarray] | None = None):
        self._allocate = allocate

    @staticmethod
    def wrap(address: int, shape: Sequence[int], dtype: np.dtype, owner: Any) -> np.ndarray:
        """A writable array over memory at `address`; keeps `owner` alive."""
        return np.asarray(AddressView(address, shape, dtype, owner))

    @staticmethod
    def sample(batch: Batch, index: int) -> np.ndarray:
        """An array over one sample."""
        return batch.sample(index)

    @staticmethod
    def empty(size: int) -> np.ndarray:
        """`size` bytes (uint8)."""
        return np.empty(size, np.uint8)

    @staticmethod
    def address(array: Any) -> int:
        """Address of the first element."""
        return array.ctypes.data

    def to_host(self, array: Any) -> np.ndarray:
        """A copy in host memory, complete on return."""
        if self._allocate is None:
            return np.array(array)
        copy = self._allocate(array.nbytes)[: array.nbytes].view(array.dtype).reshape(array.shape)
        np.copyto(copy, array)
        return copy

    @staticmethod
    def copy(target: int, source: int, size: int, stream: int | None = None, blocking: bool = True) -> None:
        """Copy bytes between addresses of this memory, in the order of `stream` where there are streams."""
        ctypes.memmove(target, source, size)


_HOST = HostMemory()


_FIRST_ADDRESS = 4096  # no operating system maps the first page: what is below is a mistake


def _pointer(ptr: Any, size: int) -> int:
    """The address meant by a user's pointer; raises instead of writing to nowhere."""
    if isinstance(ptr, ctypes.c_void_p):
        address = ptr.value or 0
    elif isinstance(ptr, (ctypes.Array, ctypes._Pointer)):
        address = ctypes.cast(ptr, ctypes.c_void_p).value or 0
    elif ptr is None:
        address = 0
    else:
        try:
            address = operator.index(ptr)
        except TypeError:
            raise TypeError(f"expected an address as ctypes.c_void_p or int, got {type(ptr).__name__}") from None
    if address < _FIRST_ADDRESS and size:
        raise ValueError(f"cannot copy {size} bytes to address {address}: a null or invalid pointer")
    return address


# ---------------------------------------------------------------------------------------------------------------------------
# What users pass in
# ---------------------------------------------------------------------------------------------------------------------------


class _Capsule:
    """Gives a bare DLPack capsule the protocol that `np.from_dlpack` asks for."""

    def __init__(self, capsule: Any):
        self._capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CPU_DEVICE


def _is_capsule(value: Any) -> bool:
    return type(value).__name__ == "PyCapsule"


def _from_dlpack(source: Any) -> np.ndarray:
    """Host array of a DLPack object, no copy. numpy calls unversioned capsules read-only because they cannot say; they are writable."""
    array = np.from_dlpack(source)
    if array.flags.writeable or not array.flags.c_contiguous:
        return array
    return _HOST.wrap(array.ctypes.data, array.shape, array.dtype, array)


def _buffer(value: Any) -> np.ndarray:
    """Host array over the memory of a user's object; TypeError when it has none."""
    if isinstance(value, (np.ndarray, np.generic)):
        return np.asarray(value)
    if _is_capsule(value):
        return _from_dlpack(_Capsule(value))
    if hasattr(value, "__array_interface__"):
        return np.asarray(value)
    try:
        view = memoryview(value)
    except TypeError:
        if hasattr(value, "__dlpack__"):
            return _from_dlpack(value)
        raise TypeError(
            f"expected a numpy array, a buffer or a DLPack capsule, got {type(value).__name__} (Python lists of numbers: use numpy.array)"
        ) from None
    return np.asarray(view)


def _import(value: Any) -> tuple[np.ndarray, DALIDataType]:
    """Dense host array and element type of a user's object; shares its memory."""
    if isinstance(value, _Tensor):
        if not isinstance(value, TensorCPU):
            raise TypeError(f"expected data in CPU memory, got {type(value).__name__}: call as_cpu() first")
        return value._array, value._dtype
    array = _buffer(value)
    try:
        kind = to_dali_type(array.dtype)
    except TypeError:
        order = " in foreign byte order" if not array.dtype.isnative else ""
        raise UnsupportedTypeError(f"elements of numpy dtype {array.dtype}{order} are not supported: convert them first") from None
    if not array.flags.c_contiguous:
        raise RuntimeError(
            f"Strided data not supported: an array of shape {array.shape} has strides {array.strides}; use numpy.ascontiguousarray"
        )
    return array, kind


def _checked_layout(layout: Any, ndim: int, what: str) -> str:
    if layout is None:
        return ""
    if not isinstance(layout, (str, TensorLayout)):
        raise TypeError(f"a layout is a string with one character per dimension or None, got {type(layout).__name__}")
    axes = str(layout)
    if axes and len(axes) != ndim:
        raise ValueError(
            "A non-empty layout must have the same number of dimensions as the number of dimensions of the "
            f"{what}.\nGot: {len(axes)} ({axes})\nExpected: {ndim}."
        )
    return axes


def _new_kind(dtype: Any, current: DALIDataType) -> DALIDataType:
    if not isinstance(dtype, DALIDataType):
        raise TypeError(f"expected a DALIDataType, got {type(dtype).__name__}")
    if dtype not in STORAGE or storage_dtype(dtype).itemsize != storage_dtype(current).itemsize:
        raise RuntimeError(f"Cannot reinterpret {current.name} as {dtype.name}: the element size must not change.")
    return dtype


def _readable(dtype: DALIDataType) -> None:
    if dtype in ENUMERATIONS:
        raise TypeError(
            f"Elements of the enumeration {dtype.name} cannot be read as numbers: convert them to an integral type with `fn.cast` first."
        )


def _tuple(shape: Any) -> tuple[int, ...]:
    if isinstance(shape, (str, int)):
        raise TypeError(f"expected a sequence of extents, got {shape!r}")
    return tuple(operator.index(extent) for extent in shape)


# ---------------------------------------------------------------------------------------------------------------------------
# Printing
# ---------------------------------------------------------------------------------------------------------------------------

_INDENT = "    "
_EDGE = 2  # leading and trailing items that an abbreviation keeps


def _described(name: str, fields: list[str]) -> str:
    return f"{name}(\n{_INDENT}" + f",\n{_INDENT}".join(fields) + ")"


def _values_text(sample: np.ndarray) -> str:
    return np.array2string(sample, prefix=_INDENT, edgeitems=_EDGE)


def _samples_text(tensors: _TensorList) -> str:
    """Values of a list; of more than 5 samples with more than 1000 elements, the first and last two."""
    count, elements = len(tensors), int(tensors._batch.shapes.prod(axis=1).sum())
    if count > 5 and elements > 1000:
        texts = [_values_text(tensors._host_sample(i)) for i in range(_EDGE)]
        texts += ["..."] + [_values_text(tensors._host_sample(i)) for i in range(count - _EDGE, count)]
    else:
        texts = [_values_text(tensors._host_sample(i)) for i in range(count)]
    between = ", " if tensors.ndim() == 0 else "," + "\n" * tensors.ndim() + _INDENT
    return f"[{between.join(texts)}]"


def _shapes_text(shapes: list[tuple[int, ...]]) -> str:
    """Shapes of a list: on one line if they fit 75 characters, else one per line; abbreviated beyond 16 samples."""
    texts = [str(shape) for shape in shapes]
    if len(texts) > 16:
        texts = [*texts[:_EDGE], "...", *texts[-_EDGE:]]
    line = ", ".join(texts)
    if len(line) > 75:
        line = f", \n{_INDENT}       ".join(texts)
    return f"[{line}]"


# ---------------------------------------------------------------------------------------------------------------------------
# One tensor
# ---------------------------------------------------------------------------------------------------------------------------


class _Tensor:
    """A dense tensor: an array of the storage type over somebody's memory, element type, layout and source."""

    __slots__ = ("__weakref__", "_array", "_dtype", "_layout", "_source_info")

    _array: Any
    _dtype: DALIDataType
    _layout: str
    _source_info: str

    _device = "cpu"
    _memory: Any = _HOST

    @classmethod
    def _make(cls, array: Any, dtype: DALIDataType, layout: str = "", source_info: str = "") -> Self:
        tensor = cls.__new__(cls)
        tensor._array, tensor._dtype, tensor._layout, tensor._source_info = array, dtype, layout, source_info
        return tensor

    def shape(self) -> list[int]:
        """Extents, one per dimension."""
        return list(self._array.shape)

    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self._array.shape)

    @property
    def dtype(self) -> DALIDataType:
        """Element type."""
        return self._dtype

    def layout(self) -> str:
        """Axis names, one character per dimension; "" if none."""
        return self._layout

    def set_layout(self, layout: str | None) -> None:
        """Name the axes; None or "" clears the names. Raises ValueError when the length is not `ndim`."""
        self._layout = _checked_layout(layout, self.ndim(), "Tensor")

    def source_info(self) -> str:
        """Where the data come from (a file name), "" if unknown."""
        return self._source_info

    def get_property(self, name: str) -> str | None:
        """ "layout" or "source_info", None when it is not set or unknown. Raises TypeError if `name` is not a string."""
        if not isinstance(name, str):
            raise TypeError(f"the name of a property is a string, got {type(name).__name__}")
        return {"layout": self._layout, "source_info": self._source_info}.get(name) or None

    def data_ptr(self) -> int:
        """Address of the first element."""
        return self._memory.address(self._array)

    def squeeze(self, dim: int | None = None) -> bool:
        """Remove dimensions of extent 1 (all, or only `dim`) and their axis names, in place; tells whether the shape changed.

        Raises RuntimeError when there is no dimension `dim`.
        """
        shape, ndim = self._array.shape, self.ndim()
        if dim is not None and not -ndim <= operator.index(dim) < ndim:
            raise RuntimeError(f"axis {dim} is out of bound for a tensor with {ndim} dimensions.")
        only = None if dim is None else operator.index(dim) % ndim
        kept = [axis for axis in range(ndim) if shape[axis] != 1 or only not in (None, axis)]
        if len(kept) == ndim:
            return False
        self._array = self._array.reshape([shape[axis] for axis in kept])
        self._layout = "".join(self._layout[axis] for axis in kept) if self._layout else ""
        return True

    def reinterpret(self, dtype: DALIDataType) -> None:
        """Call the same bytes another type, in place. Raises RuntimeError when the element size would change."""
        kind = _new_kind(dtype, self._dtype)
        self._array = self._array.view(storage_dtype(kind))
        self._dtype = kind

    def _copy_out(self, ptr: Any, **how: Any) -> None:
        size = self._array.nbytes
        address = _pointer(ptr, size)
        if size:
            self._memory.copy(address, self.data_ptr(), size, **how)

    def _host(self) -> np.ndarray:
        """The values in host memory (a copy where they are elsewhere); TypeError for enumerations."""
        raise NotImplementedError

    def _fields(self) -> list[str]:
        layout = [f'layout="{self._layout}"'] if self._layout else []
        return [f"dtype={self._dtype}", *layout, f'device="{self._device}"', f"shape={tuple(self._array.shape)}"]

    def __repr__(self) -> str:
        return _described(type(self).__name__, self._fields())

    def __str__(self) -> str:
        return _described(type(self).__name__, [_values_text(self._host()), *self._fields()])


class TensorCPU(_Tensor):
    """A tensor in CPU memory, read without a copy by `numpy.asarray` and DLPack.

    TensorCPU(obj, layout=None, is_pinned=False) shares the memory of a C-contiguous numpy array, buffer, DLPack object or capsule, or other
    TensorCPU. `is_pinned` says that the memory is page-locked; it changes nothing.

    Raises TypeError for objects without memory (Python lists) and for element types without a DALIDataType (complex, strings, objects,
    foreign byte order), RuntimeError for strided data, ValueError for a layout of the wrong length.
    """

    __slots__ = ()

    def __init__(self, object: Any, layout: str | None = None, is_pinned: bool = False):
        self._array, self._dtype = _import(object)
        self._layout = _checked_layout(layout, self._array.ndim, "Tensor")
        self._source_info = object.source_info() if isinstance(object, TensorCPU) else ""

    def as_cpu(self) -> TensorCPU:
        """This tensor."""
        return self

    def copy_to_external(self, ptr: Any) -> None:
        """Copy the bytes to CPU memory at `ptr` (ctypes.c_void_p or int). Raises ValueError for a null pointer."""
        self._copy_out(ptr)

    def _host(self) -> np.ndarray:
        _readable(self._dtype)
        return self._array

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """numpy's array interface (version 3), C-contiguous. Raises TypeError for enumerations."""
        interface = self._host().__array_interface__
        return {**{key: interface[key] for key in ("typestr", "shape", "data", "version")}, "strides": None}

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = self._host()
        return np.array(array, dtype, copy=copy)

    def __buffer__(self, flags: int) -> memoryview:
        return memoryview(self._host())  # type: ignore[arg-type]

    def __dlpack__(
        self,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A DLPack capsule over this memory (a copy with `copy=True`); `stream` is ignored.

        Raises BufferError for a `dl_device` other than the CPU and TypeError for enumerations.
        """
        return _export(self._host(), max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CPU_DEVICE

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle_tensor, (self._array, int(self._dtype), self._layout, self._source_info)


def _export(array: np.ndarray, max_version: tuple[int, int] | None, dl_device: Any, copy: bool | None) -> Any:
    if dl_device is not None and (int(dl_device[0]), int(dl_device[1])) != _CPU_DEVICE:
        raise BufferError(f"a tensor in CPU memory cannot be exported to DLPack device {tuple(dl_device)}")
    return (array.copy() if copy else array).__dlpack__(max_version=max_version)


def _unpickle_tensor(array: np.ndarray, dtype: int, layout: str, source_info: str) -> TensorCPU:
    return TensorCPU._make(array, DALIDataType(dtype), layout, source_info)


class TensorGPU(_Tensor):
    """A tensor of a GPU, or of the host device that stands in for one (then in plain memory, readable through DLPack).

    TensorGPU(obj, layout=None, device_id=None, stream=None) shares the memory of `obj`; on the host device obj is a host array, buffer,
    DLPack object or capsule, or another TensorGPU. Errors as for `TensorCPU`; RuntimeError for CUDA memory where there is no CUDA device.
    """

    __slots__ = ("_device_id", "_memory", "_stream")

    _device = "gpu"

    def __init__(self, object: Any, layout: str | None = None, device_id: int | None = None, stream: Any = None):
        self._array, self._dtype = _import_gpu(object)
        self._layout = _checked_layout(layout, self._array.ndim, "Tensor")
        self._source_info = object.source_info() if isinstance(object, TensorGPU) else ""
        self._on(object._memory if isinstance(object, TensorGPU) else _HOST, device_id, stream)

    def _on(self, memory: Any, device_id: int | None, stream: Any) -> Self:
        self._memory, self._device_id, self._stream = memory, _device_number(device_id), _stream_handle(stream)
        return self

    def device_id(self) -> int:
        """Ordinal of the device."""
        return self._device_id

    @property
    def stream(self) -> int | None:
        """Handle of the stream that the data are ordered on, None if there is none."""
        return self._stream

    def as_cpu(self) -> TensorCPU:
        """A copy in CPU memory, complete on return."""
        return TensorCPU._make(self._memory.to_host(self._array), self._dtype, self._layout, self._source_info)

    def copy_to_external(self, ptr: Any, cuda_stream: Any = None, non_blocking: bool = False, use_copy_kernel: bool = False) -> None:
        """Copy the bytes to memory of the device at `ptr` (ctypes.c_void_p or int), in the order of `cuda_stream`.

        On return the copy is complete, with `non_blocking` only enqueued. Raises ValueError for a null pointer.
        """
        self._copy_out(ptr, stream=_stream_handle(cuda_stream), blocking=not non_blocking)

    def _host(self) -> np.ndarray:
        _readable(self._dtype)
        return self._memory.to_host(self._array)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """CUDA array interface; AttributeError on the host device, where there is no CUDA memory."""
        _readable(self._dtype)
        try:
            return self._array.__cuda_array_interface__
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
        _readable(self._dtype)
        if isinstance(self._array, np.ndarray):
            return _export(self._array, max_version, dl_device, copy)
        return self._array.__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CPU_DEVICE if isinstance(self._array, np.ndarray) else self._array.__dlpack_device__()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        raise TypeError("a TensorGPU is not read by numpy implicitly: call as_cpu()")

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("cannot pickle a TensorGPU: call as_cpu()")


def _device_number(device_id: int | None) -> int:
    # DALI's constructors take -1 for "the current device"; the host device is number 0.
    number = 0 if device_id is None else operator.index(device_id)
    return max(number, 0)


def _stream_handle(stream: Any) -> int | None:
    """An int handle of an int, ctypes pointer, `types.CUDAStream` or framework stream."""
    if isinstance(stream, ctypes.c_void_p):
        return stream.value
    for attribute in ("cuda_stream", "ptr", "handle"):
        if hasattr(stream, attribute):
            return getattr(stream, attribute)
    return None if stream is None else operator.index(stream)


def _import_gpu(value: Any) -> tuple[Any, DALIDataType]:
    if isinstance(value, TensorGPU):
        return value._array, value._dtype
    if hasattr(value, "__cuda_array_interface__"):
        raise RuntimeError("CUDA memory needs a CUDA device; this is the host device")
    return _import(value)


# ---------------------------------------------------------------------------------------------------------------------------
# A list of tensors
# ---------------------------------------------------------------------------------------------------------------------------


class _TensorList:
    """A batch as users see it. `_batch` is never changed, only replaced: the executor and other lists may share it."""

    __slots__ = ("__weakref__", "_batch")

    _batch: Batch

    _device = "cpu"
    _memory: Any = _HOST
    _tensor: type[_Tensor]

    def _view(self, array: Any, layout: str, source_info: str = "") -> Any:
        """A tensor over part of this list's memory."""
        raise NotImplementedError

    def _like(self, batch: Batch) -> Self:
        """A list of the same kind and place over another batch."""
        raise NotImplementedError

    # --- what it holds ---

    def __len__(self) -> int:
        return len(self._batch.shapes)

    def shape(self) -> list[tuple[int, ...]]:
        """One tuple of extents per sample."""
        return list(map(tuple, self._batch.shapes.tolist()))

    def ndim(self) -> int:
        """Number of dimensions of the samples."""
        return self._batch.ndim

    @property
    def dtype(self) -> DALIDataType:
        """Element type."""
        return self._batch.dtype

    def layout(self) -> str:
        """Axis names of the samples, one character per dimension; "" if none."""
        return self._batch.layout

    def set_layout(self, layout: str | None) -> None:
        """Name the axes of the samples; None or "" clears the names. Raises ValueError when the length is not `ndim`."""
        self._relabel(self._batch.dtype, _checked_layout(layout, self.ndim(), "TensorList"))

    def reinterpret(self, dtype: DALIDataType) -> None:
        """Call the same bytes another type, in place. Raises RuntimeError when the element size would change."""
        self._relabel(_new_kind(dtype, self._batch.dtype), self._batch.layout)

    def reset(self) -> None:
        """Let go of the data; the list is empty then."""
        self._batch = _empty_batch(self._device)

    def is_dense_tensor(self) -> bool:
        """Whether all samples have one shape, so that `as_tensor` works."""
        return _uniform(self._batch)

    def _relabel(self, dtype: DALIDataType, layout: str) -> None:
        self._batch = Batch.alias(self._batch, self._batch.shapes, dtype, layout)

    # --- samples ---

    def __iter__(self) -> Iterator[Any]:
        return (self._at(index) for index in range(len(self)))

    def _getitem(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self._like(_sliced(self._batch, index))
        try:
            number = operator.index(index)
        except TypeError:
            raise TypeError(f"{type(self).__name__} indices are integers or slices, got {type(index).__name__}") from None
        count = len(self)
        if not -count <= number < count:
            raise IndexError(f"{type(self).__name__} index out of range")
        return self._at(number % count)

    def _at(self, index: int) -> Any:
        batch = self._batch
        info = batch.source_info[index] if batch.source_info else ""
        return self._view(self._memory.sample(batch, index), batch.layout, info)

    def _checked_index(self, index: Any) -> int:
        number = operator.index(index)
        if not 0 <= number < len(self):
            raise RuntimeError(f"Index is out-of-range: {number} in a list of {len(self)} samples.")
        return number

    def _host_sample(self, index: int) -> np.ndarray:
        """A sample in host memory, without a copy where it is there."""
        return self._view(self._memory.sample(self._batch, index), "")._host()

    # --- the list as one tensor ---

    def _dense(self) -> Batch:
        """The batch in one piece: gathered now if it is in several, once."""
        if not _contiguous(self._batch):
            self._batch = self._gathered()
        return self._batch

    def _gathered(self) -> Batch:
        """A copy of the batch, sample after sample."""
        source = self._batch
        batch = Batch(source.shapes, source.dtype, source.layout, device=source.device, source_info=source.source_info)
        memory = self._memory.empty(int(source.sizes().sum()))
        batch.place(memory, self._memory.address(memory))
        self._copy_samples(int(batch.addresses[0]) if len(batch) else 0)
        return batch

    def _copy_samples(self, target: int, **how: Any) -> None:
        """Copy all samples, one after another, to `target`."""
        batch, sizes = self._batch, self._batch.sizes()
        if _contiguous(batch):
            sizes = sizes.sum(keepdims=True)
        for source, size in zip(batch.addresses.tolist(), sizes.tolist(), strict=False):
            if size:
                self._memory.copy(target, source, size, **how)
            target += size

    def _copy_out(self, ptr: Any, **how: Any) -> None:
        self._copy_samples(_pointer(ptr, int(self._batch.sizes().sum())), **how)

    def _array_of(self, shape: tuple[int, ...]) -> Any:
        """An array of `shape` over all samples; their volume is equal."""
        batch = self._dense()
        if batch.values is not None:
            return batch.values.reshape(shape)
        if 0 in shape:
            # An address of nothing may be 0, which numpy takes for "allocate".
            return self._memory.empty(0).view(storage_dtype(batch.dtype)).reshape(shape)
        return self._memory.wrap(int(batch.addresses[0]), shape, storage_dtype(batch.dtype), batch.memory_owner)

    def _dense_shape(self) -> tuple[int, ...]:
        shapes = self._batch.shapes
        return (len(shapes), *(shapes[0].tolist() if len(shapes) else [0] * shapes.shape[1]))

    def _as_tensor(self) -> Any:
        batch = self._batch
        if not _uniform(batch):
            raise RuntimeError(f"The batch must be representable as a tensor - it must have uniform shape: {_ragged(batch)}")
        if batch.dtype is DALIDataType.NO_TYPE:
            raise RuntimeError("An empty list of no type cannot become a tensor.")
        return self._view(self._array_of(self._dense_shape()), f"N{batch.layout}" if batch.layout else "")

    def _as_reshaped_tensor(self, shape: Sequence[int]) -> Any:
        extents = _tuple(shape)
        volume = int(self._batch.shapes.prod(axis=1).sum())
        if math.prod(extents) != volume or min(extents, default=0) < 0:
            raise RuntimeError(
                "To create a view Tensor, requested shape need to have the same volume as the batch, "
                f"requested: {extents} ({math.prod(extents)}) expected: {volume}"
            )
        layout = self._batch.layout
        named = layout and len(extents) == self.ndim() + 1
        return self._view(self._array_of(extents), f"N{layout}" if named else "")

    def data_ptr(self) -> int:
        """Address of the first element of all samples laid out one after another (a list in several pieces is gathered first); 0 for an
        empty list."""
        batch = self._dense()
        return int(batch.addresses[0]) if len(batch) else 0

    def __dlpack__(self, **options: Any) -> Any:
        """A DLPack capsule of `as_tensor()`. Raises RuntimeError if the samples differ in shape."""
        return self._as_tensor().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._as_tensor().__dlpack_device__()

    # --- text ---

    def _fields(self) -> list[str]:
        batch = self._batch
        layout = [f'layout="{batch.layout}"'] if batch.layout else []
        place = [f'device="{self._device}"', f"num_samples={len(self)}"]
        return [f"dtype={batch.dtype}", *layout, *place, f"shape={_shapes_text(self.shape())}"]

    def __repr__(self) -> str:
        return _described(type(self).__name__, self._fields())

    def __str__(self) -> str:
        _readable(self._batch.dtype)
        return _described(type(self).__name__, [_samples_text(self), *self._fields()])


def _empty_batch(device: str) -> Batch:
    return Batch(np.empty((0, 0), np.int64), DALIDataType.NO_TYPE, contiguous=True, device=device)


def _uniform(batch: Batch) -> bool:
    shapes = batch.shapes
    return len(shapes) < 2 or bool((shapes == shapes[0]).all())


def _contiguous(batch: Batch) -> bool:
    """Whether samples follow each other without gaps, by design or by chance."""
    if batch.contiguous or len(batch.shapes) < 2:
        return True
    return bool((batch.addresses[1:] - batch.addresses[:-1] == batch.sizes()[:-1]).all())


def _ragged(batch: Batch) -> str:
    return _shapes_text(list(map(tuple, batch.shapes.tolist())))


def _sliced(batch: Batch, index: slice) -> Batch:
    """The batch of some samples, over the same memory."""
    whole = index.indices(len(batch))[2] == 1
    info = batch.source_info[index] if batch.source_info else None
    part = Batch(
        batch.shapes[index], batch.dtype, batch.layout, batch.addresses[index], batch.memory_owner,
        contiguous=batch.contiguous and whole, device=batch.device, source_info=info,
    )  # fmt: skip
    if batch.values is not None and whole:
        part.values = batch.values[index]
    return part


def _batch_of_array(array: Any, kind: DALIDataType, memory: Any, device: str) -> Batch:
    """A batch over an array whose first dimension counts samples."""
    if len(array.shape) == 0:
        raise RuntimeError("Cannot create TensorList from 0-dim array.")
    count, *extents = array.shape
    shapes = np.empty((count, len(extents)), np.int64)
    shapes[:] = extents
    stride = math.prod(extents) * array.dtype.itemsize
    addresses = memory.address(array) + np.arange(count, dtype=np.int64) * stride
    batch = Batch(shapes, kind, "", addresses, array, contiguous=True, device=device)
    if isinstance(array, np.ndarray):
        batch.values = array
    return batch


def _batch_of_tensors(tensors: list[Any], name: str, memory: Any, device: str) -> Batch:
    """A batch of tensors of one type and rank where they lie."""
    if not tensors:
        return _empty_batch(device)
    first = tensors[0]
    for position, tensor in enumerate(tensors):
        if tensor.dtype != first.dtype:
            raise TypeError(
                f"Tensors cannot have different data types. Tensor at position {position} has type {tensor.dtype.name} "
                f"expected to have type {first.dtype.name}."
            )
        if tensor.ndim() != first.ndim() or tensor.layout() not in ("", first.layout()):
            raise TypeError(
                f"Object at position {position} cannot be converted to {name}: it has {tensor.ndim()} dimensions and layout "
                f'"{tensor.layout()}", the first one {first.ndim()} and "{first.layout()}".'
            )
    shapes = np.array([tensor.shape() for tensor in tensors], np.int64).reshape(len(tensors), first.ndim())
    addresses = np.array([tensor.data_ptr() for tensor in tensors], np.int64)
    info = [tensor.source_info() for tensor in tensors]
    owner = [tensor._array for tensor in tensors]
    return Batch(shapes, first.dtype, first.layout(), addresses, owner, device=device, source_info=info if any(info) else None)


def _tensors(objects: Sequence[Any], cls: type[Any]) -> list[Any]:
    result = []
    for position, item in enumerate(objects):
        try:
            result.append(item if isinstance(item, cls) else cls(item))
        except (TypeError, ValueError, RuntimeError) as error:
            raise TypeError(f"Object at position {position} cannot be converted to {cls.__name__}: {error}") from error
    return result


def _dlpack_tensors(objects: Any, cls: type[Any]) -> list[Any]:
    if not isinstance(objects, (list, tuple)):
        raise TypeError(f"expected a list of DLPack objects, got {type(objects).__name__}")
    result = []
    for position, item in enumerate(objects):
        if not hasattr(item, "__dlpack__"):
            raise TypeError(f"Object at position {position} does not support the DLPack protocol.")
        result.append(item if isinstance(item, cls) else cls(_from_dlpack(item)))
        if result[-1].ndim() != result[0].ndim():
            raise RuntimeError(f"Sample {position} has {result[-1].ndim()} dimensions, the first one {result[0].ndim()}.")
    return result


def _broadcast_batch(tensor: _Tensor, count: Any) -> Batch:
    number = operator.index(count)
    if number < 0:
        raise ValueError(f"the number of samples cannot be negative, got {number}")
    shapes = np.empty((number, tensor.ndim()), np.int64)
    shapes[:] = tensor.shape()
    addresses = np.full(number, tensor.data_ptr(), np.int64)
    info = [tensor.source_info()] * number if tensor.source_info() else None
    return Batch(shapes, tensor.dtype, tensor.layout(), addresses, tensor._array, device=tensor._device, source_info=info)


class TensorListCPU(_TensorList):
    """A batch of tensors in CPU memory: one type, rank and layout; shapes may differ.

    - TensorListCPU(array, layout=None, is_pinned=False): the first dimension of a C-contiguous numpy array, buffer, DLPack object or
      capsule, or TensorCPU counts samples; shares its memory.
    - TensorListCPU(tensors, layout=None, contiguous=True): a list of tensors or arrays, copied into one piece unless `contiguous` is
      False; [] is an empty list of NO_TYPE.
    - TensorListCPU(other, layout=None): shares the samples of another list.

    Raises TypeError for objects without memory, element types without a DALIDataType, and tensors of different type or rank; RuntimeError
    for strided data and 0-d arrays; ValueError for a layout of the wrong length.
    """

    __slots__ = ()

    _tensor = TensorCPU

    def __init__(self, object: Any, layout: str | None = None, is_pinned: bool = False, contiguous: bool = True):
        if isinstance(object, TensorListCPU):
            self._batch = object._batch
        elif isinstance(object, (list, tuple)):
            self._batch = _batch_of_tensors(_tensors(object, TensorCPU), "TensorCPU", _HOST, "cpu")
            if contiguous and len(object):
                self._batch = self._gathered()
        else:
            self._batch = _batch_of_array(*_import(object), _HOST, "cpu")
        if layout is not None:
            self.set_layout(layout)

    @classmethod
    def _from_batch(cls, batch: Batch) -> Self:
        """A list over a placed batch; no copy and nothing per sample."""
        tensors = cls.__new__(cls)
        tensors._batch = batch
        return tensors

    @staticmethod
    def from_dlpack_list(list_of_objects: list[Any], layout: str | None = None, contiguous: bool = False) -> TensorListCPU:
        """A list of DLPack objects of one type and rank; shares their memory unless `contiguous` asks for a copy in one piece.

        Raises TypeError for objects without DLPack and for different types, RuntimeError for different ranks and strided data.
        """
        tensors = TensorListCPU._from_batch(_batch_of_tensors(_dlpack_tensors(list_of_objects, TensorCPU), "TensorCPU", _HOST, "cpu"))
        if contiguous:
            tensors._batch = tensors._gathered()
        if layout is not None:
            tensors.set_layout(layout)
        return tensors

    @staticmethod
    def broadcast(tensor: Any, num_samples: int) -> TensorListCPU:
        """A list that shows one tensor (TensorCPU or array) `num_samples` times, no copies. Raises ValueError for a negative number."""
        return TensorListCPU._from_batch(_broadcast_batch(tensor if isinstance(tensor, TensorCPU) else TensorCPU(tensor), num_samples))

    def _view(self, array: Any, layout: str, source_info: str = "") -> TensorCPU:
        return TensorCPU._make(array, self._batch.dtype, layout, source_info)

    def _like(self, batch: Batch) -> Self:
        return self._from_batch(batch)

    @overload
    def __getitem__(self, index: int) -> TensorCPU: ...
    @overload
    def __getitem__(self, index: slice) -> TensorListCPU: ...
    def __getitem__(self, index: Any) -> Any:
        """Sample `index` (negative counts from the end) as a TensorCPU over this memory, or the list of a slice's samples.

        Raises IndexError out of range and TypeError for other indices.
        """
        return self._getitem(index)

    def at(self, index: int) -> np.ndarray:
        """A copy of sample `index`. Raises RuntimeError out of range (no negative numbers) and TypeError for enumerations."""
        return np.array(self._host_sample(self._checked_index(index)))

    def as_cpu(self) -> TensorListCPU:
        """This list."""
        return self

    def as_tensor(self) -> TensorCPU:
        """One tensor [samples, ...] over this memory, with "N" before the layout. Raises RuntimeError if shapes differ."""
        return self._as_tensor()

    def as_reshaped_tensor(self, shape: Sequence[int]) -> TensorCPU:
        """All samples, one after another, as a tensor of `shape`, with "N" before the layout if the rank fits it.

        Raises RuntimeError if the volume of `shape` is not that of the list.
        """
        return self._as_reshaped_tensor(shape)

    def as_array(self) -> np.ndarray:
        """A copy as an array [samples, ...]. Raises RuntimeError if shapes differ and TypeError for enumerations."""
        _readable(self._batch.dtype)
        if self._batch.dtype is DALIDataType.NO_TYPE:
            return np.empty(0, np.float32)
        if not _uniform(self._batch):
            raise RuntimeError(
                f"Cannot produce a numpy array: the tensors in the list do not all have the same shape: {_ragged(self._batch)}. "
                "Pad or crop the samples to a common shape, or check is_dense_tensor() beforehand."
            )
        return self._stacked()

    def _stacked(self) -> np.ndarray:
        array = np.empty(self._dense_shape(), storage_dtype(self._batch.dtype))
        self._copy_samples(array.ctypes.data)
        return array

    def copy_to_external(self, ptr: Any) -> None:
        """Copy all samples, one after another, to CPU memory at `ptr` (ctypes.c_void_p or int). Raises ValueError for a null pointer."""
        self._copy_out(ptr)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """An array [samples, ...], over this memory where it is in one piece. Raises ValueError if shapes differ."""
        _readable(self._batch.dtype)
        if not _uniform(self._batch):
            raise ValueError(f"samples of different shapes cannot be one array: {_ragged(self._batch)}")
        if self._batch.dtype is DALIDataType.NO_TYPE or (copy is not False and not _contiguous(self._batch)):
            return np.asarray(self.as_array(), dtype)
        return np.array(self._array_of(self._dense_shape()), dtype, copy=copy)

    def __reduce__(self) -> tuple[Any, ...]:
        batch = self._gathered()
        data = np.asarray(batch.owner)
        info = None if batch.source_info is None else list(batch.source_info)
        return _unpickle_list, (batch.shapes, int(batch.dtype), batch.layout, data, info)


def _unpickle_list(shapes: np.ndarray, dtype: int, layout: str, data: np.ndarray, source_info: list[str] | None) -> TensorListCPU:
    batch = Batch(shapes, DALIDataType(dtype), layout, source_info=source_info)
    batch.place(data)
    return TensorListCPU._from_batch(batch)


class TensorListGPU(_TensorList):
    """A batch of tensors of a GPU, or of the host device that stands in for one.

    TensorListGPU(obj=None, layout=None, device_id=None, stream=None, contiguous=True): obj is what `TensorGPU` takes (its first dimension
    counts samples), a list of TensorGPU or of such objects, another TensorListGPU, or None for an empty list. Errors as for
    `TensorListCPU`.
    """

    __slots__ = ("_device_id", "_memory", "_stream")

    _device = "gpu"
    _tensor = TensorGPU

    def __init__(
        self, object: Any = None, layout: str | None = None, device_id: int | None = None, stream: Any = None, contiguous: bool = True
    ):
        if isinstance(object, TensorListGPU):
            given = stream if stream is not None else object._stream
            self._on(object._memory, object._device_id, given)._batch = object._batch
        elif isinstance(object, (list, tuple)):
            tensors = _tensors(object, TensorGPU)
            first = tensors[0] if tensors else None
            self._on(first._memory if first else _HOST, first._device_id if first else device_id, stream)
            self._batch = _batch_of_tensors(tensors, "TensorGPU", self._memory, "gpu")
            if contiguous and tensors:
                self._batch = self._gathered()
        elif object is None:
            self._on(_HOST, device_id, stream)._batch = _empty_batch("gpu")
        else:
            tensor = object if isinstance(object, TensorGPU) else TensorGPU(object, None, device_id, stream)
            self._on(tensor._memory, tensor._device_id, tensor._stream)
            self._batch = _batch_of_array(tensor._array, tensor._dtype, tensor._memory, "gpu")
        if layout is not None:
            self.set_layout(layout)

    def _on(self, memory: Any, device_id: int | None, stream: Any) -> Self:
        self._memory, self._device_id, self._stream = memory, _device_number(device_id), _stream_handle(stream)
        return self

    @classmethod
    def _from_batch(cls, batch: Batch, device_id: int | None = None, stream: Any = None, memory: Any = _HOST) -> Self:
        """A list over a placed batch of a device; `memory` is the device's side of `HostMemory`."""
        tensors = cls.__new__(cls)._on(memory, device_id, stream)
        tensors._batch = batch
        return tensors

    @staticmethod
    def from_dlpack_list(
        list_of_objects: list[Any], layout: str | None = None, stream: Any = None, contiguous: bool = False
    ) -> TensorListGPU:
        """A list of DLPack objects of one type and rank; shares their memory unless `contiguous` asks for a copy in one piece.

        Raises TypeError for objects without DLPack and for different types, RuntimeError for different ranks and strided data.
        """
        tensors = _dlpack_tensors(list_of_objects, TensorGPU)
        return TensorListGPU(tensors, layout, None, stream, contiguous)

    @staticmethod
    def broadcast(tensor: Any, num_samples: int) -> TensorListGPU:
        """A list that shows one tensor `num_samples` times, without copies. Raises ValueError for a negative number."""
        tensor = tensor if isinstance(tensor, TensorGPU) else TensorGPU(tensor)
        return TensorListGPU._from_batch(_broadcast_batch(tensor, num_samples), tensor._device_id, tensor._stream, tensor._memory)

    def device_id(self) -> int:
        """Ordinal of the device."""
        return self._device_id

    @property
    def stream(self) -> int | None:
        """Handle of the stream that the data are ordered on, None if there is none."""
        return self._stream

    def _view(self, array: Any, layout: str, source_info: str = "") -> TensorGPU:
        tensor = TensorGPU._make(array, self._batch.dtype, layout, source_info)
        return tensor._on(self._memory, self._device_id, self._stream)

    def _like(self, batch: Batch) -> Self:
        return self._from_batch(batch, self._device_id, self._stream, self._memory)

    @overload
    def __getitem__(self, index: int) -> TensorGPU: ...
    @overload
    def __getitem__(self, index: slice) -> TensorListGPU: ...
    def __getitem__(self, index: Any) -> Any:
        """Sample `index` (negative counts from the end) as a TensorGPU over this memory, or the list of a slice's samples.

        Raises IndexError out of range and TypeError for other indices.
        """
        return self._getitem(index)

    def at(self, index: int) -> TensorGPU:
        """Sample `index` as a TensorGPU. Deprecated: use `[]`. Raises RuntimeError out of range (no negative numbers)."""
        warnings.warn("TensorListGPU.at() is deprecated: use [] instead", DeprecationWarning, stacklevel=2)
        return self._at(self._checked_index(index))

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
        return self._as_tensor()

    def as_reshaped_tensor(self, shape: Sequence[int]) -> TensorGPU:
        """All samples, one after another, as a tensor of `shape`, with "N" before the layout if the rank fits it.

        Raises RuntimeError if the volume of `shape` is not that of the list.
        """
        return self._as_reshaped_tensor(shape)

    def copy_to_external(self, ptr: Any, cuda_stream: Any = None, non_blocking: bool = False, use_copy_kernel: bool = False) -> None:
        """Copy all samples, one after another, to memory of the device at `ptr` (ctypes.c_void_p or int), in the order of `cuda_stream`.

        On return the copy is complete, with `non_blocking` only enqueued. Raises ValueError for a null pointer.
        """
        self._copy_out(ptr, stream=_stream_handle(cuda_stream), blocking=not non_blocking)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        raise TypeError("a TensorListGPU is not read by numpy implicitly: call as_cpu()")

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("cannot pickle a TensorListGPU: call as_cpu()")
