"""Conversion between tensor lists and torch tensors."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import torch

from ...tensors import TensorCPU, TensorGPU, TensorListCPU, TensorListGPU
from ...tensors.lists import shared_array
from ...types import DALIDataType

to_torch_type: Mapping[DALIDataType, torch.dtype] = MappingProxyType(
    {
        DALIDataType.FLOAT: torch.float32,
        DALIDataType.FLOAT64: torch.float64,
        DALIDataType.FLOAT16: torch.float16,
        DALIDataType.UINT8: torch.uint8,
        DALIDataType.INT8: torch.int8,
        DALIDataType.BOOL: torch.bool,
        DALIDataType.INT16: torch.int16,
        DALIDataType.INT32: torch.int32,
        DALIDataType.INT64: torch.int64,
        DALIDataType.UINT16: torch.uint16,
        DALIDataType.UINT32: torch.uint32,
        DALIDataType.UINT64: torch.uint64,
    }
)
"""The torch type of each element type that has one."""

_LISTS = (TensorListCPU, TensorListGPU)


def tensor_of(output: object, name: str = "") -> torch.Tensor:
    """A torch tensor over the memory of a tensor, or a tensor [samples, ...] over the memory of a tensor list.

    RuntimeError (with the output's name) if samples differ in shape.
    """
    if isinstance(output, _LISTS):
        try:
            # On the CPU the way over numpy arrays is faster: with cold caches DLPack takes twice as long.
            return torch.from_numpy(shared_array(output)) if isinstance(output, TensorListCPU) else torch.from_dlpack(output)
        except RuntimeError as error:
            if output.dtype is DALIDataType.NO_TYPE:
                return torch.empty(0)
            if output.is_dense_tensor():
                raise
            shapes = sorted(set(output.shape()))
            raise RuntimeError(
                f"output {name!r}: samples of different shapes ({shapes[0]}, {shapes[1]}, ...) cannot be one tensor: crop or pad them, "
                "or use DALIRaggedIterator"
            ) from error
    return torch.from_dlpack(output)


def to_torch_tensor(dali_tensor: object, copy: bool) -> torch.Tensor:
    """A torch tensor of a tensor, or [samples, ...] of a tensor list. It shares the memory, or with `copy` owns a copy.

    Raises TypeError for other objects, RuntimeError for a list of samples that differ in shape.
    """
    if not isinstance(dali_tensor, (TensorCPU, TensorGPU, *_LISTS)):
        raise TypeError(f"to_torch_tensor takes tensors and tensor lists of a pipeline, got {type(dali_tensor).__name__}")
    tensor = tensor_of(dali_tensor)
    return tensor.clone() if copy else tensor


def sample_tensors(output: Any) -> list[torch.Tensor]:
    """A tensor over the memory of each sample."""
    return [torch.from_dlpack(sample) for sample in output]


class FeedTypeError(TypeError, AssertionError):
    """The error of :func:`feed_ndarray` for other element types."""


class FeedShapeError(ValueError, AssertionError):
    """The error of :func:`feed_ndarray` for another shape."""


def feed_ndarray(dali_tensor: Any, arr: torch.Tensor, cuda_stream: Any = None) -> torch.Tensor:
    """Copy a tensor or a (uniform) tensor list into `arr` and return `arr`. `cuda_stream` orders copies to a GPU.

    Raises TypeError if the element types differ, ValueError if the shapes differ. Both are AssertionErrors as well, as in DALI.
    """
    if not isinstance(dali_tensor, (TensorCPU, TensorGPU, *_LISTS)):
        raise TypeError(f"feed_ndarray copies tensors and tensor lists of a pipeline, got {type(dali_tensor).__name__}")
    source = tensor_of(dali_tensor)
    if source.dtype != arr.dtype:
        raise FeedTypeError(f"the data has elements of {source.dtype}, the destination of {arr.dtype}: allocate it with to_torch_type")
    if source.shape != arr.shape:
        raise FeedShapeError(f"the data has shape {tuple(source.shape)}, the destination {tuple(arr.shape)}")
    if cuda_stream is None or not arr.is_cuda:
        return arr.copy_(source)
    stream = cuda_stream if isinstance(cuda_stream, torch.cuda.Stream) else torch.cuda.ExternalStream(int(cuda_stream))
    with torch.cuda.stream(stream):
        return arr.copy_(source, non_blocking=True)
