"""Batches behind tensor lists: made of arrays and tensors in place, sliced, and inspected."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..batch import Batch, ReadOnlyMemory
from ..types import DALIDataType
from .dlpack import from_dlpack
from .printing import shapes_text
from .tensor import Tensor


def empty_batch(device: str) -> Batch:
    """An empty batch without a type."""
    return Batch(np.empty((0, 0), np.int64), DALIDataType.NO_TYPE, contiguous=True, device=device)


def is_uniform(batch: Batch) -> bool:
    """Whether all samples have one shape."""
    shapes = batch.shapes
    return len(shapes) < 2 or shapes.tobytes() == shapes[0].tobytes() * len(shapes)  # a third of the time of comparing elements


def is_contiguous(batch: Batch) -> bool:
    """Whether samples follow each other without gaps."""
    if batch.contiguous or len(batch.shapes) < 2:
        return True
    return bool((batch.addresses[1:] - batch.addresses[:-1] == batch.sizes()[:-1]).all())


def listed_shapes(batch: Batch) -> str:
    """The shapes of the samples, abbreviated, for messages."""
    return shapes_text(list(map(tuple, batch.shapes.tolist())))


def sliced(batch: Batch, index: slice) -> Batch:
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


def batch_of_array(array: Any, kind: DALIDataType, memory: Any, device: str) -> Batch:
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


def batch_of_tensors(tensors: list[Any], name: str, device: str) -> Batch:
    """A batch of tensors of one type and rank, in place."""
    if not tensors:
        return empty_batch(device)
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
    arrays = [tensor._array for tensor in tensors]
    fixed = any(isinstance(array, np.ndarray) and not array.flags.writeable for array in arrays)
    owner = ReadOnlyMemory(*arrays) if fixed else arrays
    return Batch(shapes, first.dtype, first.layout(), addresses, owner, device=device, source_info=info if any(info) else None)


def repeated(tensor: Tensor, count: Any) -> Batch:
    """A batch of `count` times the same tensor, without copies."""
    number = operator.index(count)
    if number < 0:
        raise ValueError(f"the number of samples cannot be negative, got {number}")
    shapes = np.empty((number, tensor.ndim()), np.int64)
    shapes[:] = tensor.shape()
    addresses = np.full(number, tensor.data_ptr(), np.int64)
    info = [tensor.source_info()] * number if tensor.source_info() else None
    return Batch(shapes, tensor.dtype, tensor.layout(), addresses, tensor._array, device=tensor._device, source_info=info)


def as_tensors(objects: Sequence[Any], cls: type[Any]) -> list[Any]:
    """The objects as tensors of `cls`; TypeError names the position of one that is not."""
    result = []
    for position, item in enumerate(objects):
        try:
            result.append(item if isinstance(item, cls) else cls(item))
        except (TypeError, ValueError, RuntimeError) as error:
            raise TypeError(f"Object at position {position} cannot be converted to {cls.__name__}: {error}") from error
    return result


def dlpack_tensors(objects: object, cls: type[Any]) -> list[Any]:
    """DLPack objects of one rank as tensors of `cls`, over their memory."""
    if not isinstance(objects, (list, tuple)):
        raise TypeError(f"expected a list of DLPack objects, got {type(objects).__name__}")
    result = []
    for position, item in enumerate(objects):
        if not hasattr(item, "__dlpack__"):
            raise TypeError(f"Object at position {position} does not support the DLPack protocol.")
        result.append(item if isinstance(item, cls) else cls(from_dlpack(item)))
        if result[-1].ndim() != result[0].ndim():
            raise RuntimeError(f"Sample {position} has {result[-1].ndim()} dimensions, the first one {result[0].ndim()}.")
    return result
