"""Converts data that a source returned, or a user fed, to a batch.

A batch is a list of samples, one array whose first axis counts samples, a TensorList or Tensor, or a DLPack object. The data is copied into
the pipeline's memory unless `no_copy`. In both cases samples of one shape are one dense block.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import numpy as np
from asyncdali_workers import limits

from ..batch import Batch, from_numpy_dtype, storage_dtype
from ..types import DALIDataType
from ..types.conversions import FROM_DTYPE
from .cpu import TensorListCPU
from .dlpack import from_dlpack, is_capsule
from .foreign import UnsupportedTypeError
from .gpu import TensorGPU, TensorListGPU
from .tensor import Tensor

Allocate = Callable[[int], np.ndarray]


class InvalidData(RuntimeError, TypeError):
    """Data that is no batch or sample. It is a TypeError; DALI reports RuntimeError."""


# ------------------------------------------------------------------------------------------------------------------ samples


def sample_array(value: Any, dtype: np.dtype | None = None) -> np.ndarray:
    """One sample as a numpy array in native byte order. Shares memory if possible.

    `dtype` is the declared element type. Python numbers, which have no type, take it; without it they become int32 and float32. InvalidData
    for objects that are no array; UnsupportedTypeError for element types without a DALIDataType.
    """
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
    elif isinstance(value, (bool, int, float, list, tuple)):
        array = _python_numbers(value, dtype)
    elif isinstance(value, (bytes, bytearray)):
        array = np.frombuffer(value, np.uint8)
    elif isinstance(value, type):
        raise InvalidData(f"the class {value.__module__}.{value.__qualname__} is not a sample; did you mean an object of the class?")
    else:
        array = _foreign_array(value)
    return array if array.dtype in _KNOWN else _converted(array)


_KNOWN = frozenset(FROM_DTYPE)
_ARRAYS = {np.ndarray}
_dtype_of, _shape_of = attrgetter("dtype"), attrgetter("shape")


def _converted(array: np.ndarray) -> np.ndarray:
    """An array in native byte order, because other orders have no DALIDataType."""
    native = array.dtype.newbyteorder("=")
    if native in _KNOWN:
        limits.check_array(array, "a sample in another byte order")
        return array.astype(native)
    raise UnsupportedTypeError(
        f"elements of numpy dtype {array.dtype} are not supported (supported: bool, integers of 8 to 64 bits, float16, float32, float64)"
    )


def _python_numbers(value: Any, dtype: np.dtype | None) -> np.ndarray:
    """Python numbers with the types of the library's constants (int32, float32, bool), or with the declared type."""
    if isinstance(value, (list, tuple)) and any(isinstance(item, np.ndarray) for item in value):
        raise InvalidData(f"a {type(value).__name__} of arrays is not a sample (several outputs of one source need `num_outputs`)")
    try:
        array = np.array(value)
    except ValueError as error:
        raise InvalidData(f"a {type(value).__name__} is not a sample unless it holds numbers in equal rows: {error}") from error
    if array.dtype.kind not in "biuf" or (array.size == 0 and dtype is None):
        what = f"a {type(value).__name__} of {type(value[0]).__name__}" if isinstance(value, (list, tuple)) and value else repr(value)
        raise InvalidData(f"{what} is not a sample: don't know how to extract the shape and type; use a numpy array")
    if dtype is None:
        dtype = {"b": np.dtype(bool), "f": np.dtype(np.float32)}.get(array.dtype.kind, np.dtype(np.int32))
    if array.dtype.kind in "iu" and dtype.kind in "iu" and array.size:
        limits = np.iinfo(dtype)
        if array.min() < limits.min or array.max() > limits.max:
            raise InvalidData(f"{value!r} does not fit into {dtype}: use a numpy array of a larger type")
    return array.astype(dtype)


def _foreign_array(value: Any) -> np.ndarray:
    """The memory of another library's array. InvalidData if there is none on the CPU."""
    if isinstance(value, Tensor):
        return np.asarray(value.as_cpu())  # type: ignore[attr-defined]
    if isinstance(value, (TensorListCPU, TensorListGPU)):
        raise InvalidData("a TensorList is a batch, not a sample: give its elements, or set batch=True")
    if is_capsule(value):
        return from_dlpack(value)
    if type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "numpy"):
        result: np.ndarray = value.numpy()  # its own error names the reason: requires_grad, bfloat16, GPU memory
        return result
    if hasattr(value, "__array_interface__"):
        return np.asarray(value)
    if hasattr(value, "__dlpack__"):
        return _dlpack_array(value)
    if hasattr(value, "__array__"):
        return np.asarray(value)
    try:
        return np.asarray(memoryview(value))
    except TypeError:
        raise InvalidData(
            f"don't know how to extract the shape and type of a {type(value).__name__}; "
            "a sample is an array (numpy, torch, DLPack, anything with __array__), a number or bytes"
        ) from None


def _dlpack_array(value: Any) -> np.ndarray:
    try:
        return from_dlpack(value)
    except (BufferError, RuntimeError, TypeError) as error:
        raise InvalidData(f"the DLPack data of a {type(value).__name__} is not in CPU memory or cannot be read: {error}") from error


# ------------------------------------------------------------------------------------------------------------------- batches


class Converter:
    """Converts data to batches for one input.

    `dtype` is the declared element type or None, `allocate` gives pooled memory, `no_copy` uses data in place.
    """

    def __init__(self, allocate: Allocate, dtype: DALIDataType | None, no_copy: bool):
        self._allocate = allocate
        self._dtype = None if dtype is None else storage_dtype(dtype)
        self._no_copy = no_copy

    def batch(self, data: Any) -> Batch:
        """A batch of one object. Its layout is that of the data ("" if it has none)."""
        kind = type(data)
        if kind is np.ndarray and data.dtype in _KNOWN and data.ndim:
            return self._dense(data, None)
        if kind is list or kind is tuple:
            return self.samples(data)
        if isinstance(data, (TensorListCPU, TensorListGPU)):
            return self._tensor_list(data if isinstance(data, TensorListCPU) else data.as_cpu())
        if isinstance(data, (list, tuple)):
            return self.samples(data)
        if isinstance(data, (str, bytes, bytearray, bool, int, float, dict, set, frozenset)) or data is None:
            raise InvalidData(
                f"don't know how to extract the shape and type of a {type(data).__name__} as a batch: "
                "a batch is a list of samples, an array whose first axis counts samples, or a TensorList"
            )
        array = sample_array(data)
        if array.ndim == 0:
            raise InvalidData(f"a batch has at least one dimension, got a scalar ({type(data).__name__}); its first axis counts samples")
        batch = self._dense(array, _type_of(data))
        if isinstance(data, Tensor):
            batch.source_info = origins_of([data] * len(batch))
        return batch

    def samples(self, items: Sequence[Any]) -> Batch:
        """A batch of a list of samples; RuntimeError if they differ in type or number of dimensions."""
        if not items:
            return Batch(np.empty((0, 0), np.int64), DALIDataType.NO_TYPE, contiguous=True, owner=())
        layout, kind, origins = "", None, None
        if set(map(type, items)) != _ARRAYS:
            layout, kind = tensor_traits(items)
            _refuse_mixed_capsules(items)
            origins = origins_of(items)
            items = [self._sample(item, k) for k, item in enumerate(items)]
        arrays: Sequence[np.ndarray] = items
        first = arrays[0]
        types = set(map(_dtype_of, arrays))
        if len(types) > 1 or first.dtype not in _KNOWN:
            arrays = [self._sample(array, k) for k, array in enumerate(arrays)]
            first = arrays[0]
            check_types(arrays)
        if len(set(map(_shape_of, arrays))) == 1:
            batch = self._equal(arrays, first)
        else:
            check_ranks(arrays)
            batch = self._ragged(arrays)
        batch.layout, batch.source_info = layout, origins
        if kind is not None:
            batch.dtype = kind
        return batch

    def _sample(self, item: Any, index: int) -> np.ndarray:
        try:
            return sample_array(item, self._dtype)
        except (InvalidData, UnsupportedTypeError) as error:
            raise type(error)(f"sample {index}: {error}") from error

    def _dense(self, array: np.ndarray, kind: DALIDataType | None) -> Batch:
        if self._no_copy and array.flags.c_contiguous:
            return _shared(Batch.from_values(array, dtype=kind))
        values = self._new(array.dtype, array.shape)
        np.copyto(values, array)
        return Batch.from_values(values, dtype=kind)

    def _equal(self, arrays: Sequence[np.ndarray], first: np.ndarray) -> Batch:
        """Samples of one shape become one dense block. With `no_copy` it is the user's own, if the samples are one block there."""
        if self._no_copy and len(arrays) == 1 and first.flags.c_contiguous:
            return _shared(Batch.from_values(first[None]))
        if self._no_copy and first.nbytes * len(arrays) >= _WORTH_SHARING:
            return self._where_they_lie(arrays)
        values = self._new(first.dtype, (len(arrays), *first.shape))
        if first.ndim:
            np.concatenate(arrays, out=values.reshape(len(arrays) * first.shape[0], *first.shape[1:]))
        else:
            values[:] = [array.item() for array in arrays]
        return Batch.from_values(values)

    def _ragged(self, arrays: Sequence[np.ndarray]) -> Batch:
        if self._no_copy:
            return self._where_they_lie(arrays)
        shapes = np.array([array.shape for array in arrays], np.int64)
        batch = Batch(shapes, from_numpy_dtype(arrays[0].dtype))
        batch.reserve_by_numpy(self._allocate)
        memory = batch.owner
        flat = memory.view(arrays[0].dtype) if memory.nbytes % arrays[0].itemsize == 0 else memory
        end = 0
        for array in arrays:
            start, end = end, end + array.size
            flat[start:end].reshape(array.shape)[...] = array
        return batch

    @staticmethod
    def _where_they_lie(arrays: Sequence[np.ndarray]) -> Batch:
        kept = [array if array.flags.c_contiguous else np.ascontiguousarray(array) for array in arrays]
        shapes = np.array([array.shape for array in kept], np.int64).reshape(len(kept), kept[0].ndim)
        addresses = np.array([array.ctypes.data for array in kept], np.int64)
        return _shared(Batch(shapes, from_numpy_dtype(kept[0].dtype), "", addresses, kept))

    def _tensor_list(self, tensors: TensorListCPU) -> Batch:
        source = tensors._batch
        if self._no_copy:
            shared = Batch(
                source.shapes, source.dtype, source.layout, source.addresses, source.memory_owner, contiguous=source.contiguous,
                source_info=source.source_info,
            )  # fmt: skip
            shared.values = source.values
            return _shared(shared)
        copy = _gathered(source, self._allocate)
        copy.layout, copy.source_info = source.layout, source.source_info
        return copy

    def _new(self, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
        """An array for equal samples."""
        size = math.prod(shape) * dtype.itemsize
        if size >= limits.CHECKED:
            sample = limits.check_cap(shape[1:], dtype.itemsize, "a sample")
            try:
                memory = self._allocate(size)
            except limits.TooLarge as error:
                text = f"a sample of shape {shape[1:]} has {sample:,} bytes, the batch of {shape[0]} has {size:,}"
                raise limits.TooLarge(f"{text}: {error}") from None
        else:
            memory = self._allocate(size)
        return memory[:size].view(dtype).reshape(shape)


_WORTH_SHARING = 64 * 1024
"""For smaller batches (bytes), one small copy is cheaper than one address per sample."""


def _shared(batch: Batch) -> Batch:
    """Mark a batch whose memory is the user's. Outputs of the pipeline must not be views of it."""
    batch.reused = True
    return batch


def _gathered(source: Batch, allocate: Allocate) -> Batch:
    """A contiguous copy of a batch."""
    copy = Batch(source.shapes, source.dtype)
    copy.reserve_by_numpy(allocate)
    for k in range(len(source)):
        copy.sample(k)[...] = source.sample(k)
    return copy


def _type_of(data: Any) -> DALIDataType | None:
    """The type of a tensor. numpy's dtype cannot express all of them (enumerations)."""
    return data.dtype if isinstance(data, Tensor) else None


def tensor_traits(items: Sequence[Any]) -> tuple[str, DALIDataType | None]:
    """Layout and type of a list of Tensors; RuntimeError if the layouts differ."""
    layouts = {item.layout() for item in items if isinstance(item, Tensor)}
    if len(layouts) > 1:
        raise RuntimeError(f"all samples must have the same layout, got {', '.join(map(repr, sorted(layouts)))}")
    if any(isinstance(item, TensorGPU) for item in items) and not all(isinstance(item, TensorGPU) for item in items):
        raise InvalidData("samples in CPU memory and samples in GPU memory cannot be mixed in one batch")
    return (layouts.pop() if layouts else ""), _type_of(items[0])


def origins_of(items: Sequence[Any]) -> list[str] | None:
    """The origins (``source_info``) of a list of samples; None if no sample has one."""
    origins = [item.source_info() if isinstance(item, Tensor) else "" for item in items]
    return origins if any(origins) else None


def _refuse_mixed_capsules(items: Sequence[Any]) -> None:
    capsules = sum(map(is_capsule, items))
    if capsules and capsules != len(items):
        raise InvalidData("DLPack capsules and other objects cannot be mixed in one batch")


def check_types(arrays: Sequence[Any]) -> None:
    """Raise RuntimeError unless all arrays have one element type."""
    for k, array in enumerate(arrays):
        if array.dtype != arrays[0].dtype:
            raise RuntimeError(
                f"all samples of a batch must have the same type: sample 0 has {arrays[0].dtype}, sample {k} has {array.dtype}"
            )


def check_ranks(arrays: Sequence[Any]) -> None:
    """Raise RuntimeError unless all arrays have one number of dimensions."""
    for k, array in enumerate(arrays):
        if len(array.shape) != len(arrays[0].shape):
            raise RuntimeError(
                "all samples of a batch must have the same number of dimensions: "
                f"sample 0 has {len(arrays[0].shape)} (shape {arrays[0].shape}), sample {k} has {len(array.shape)} (shape {array.shape})"
            )
