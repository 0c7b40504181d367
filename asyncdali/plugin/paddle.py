"""Pipelines in PaddlePaddle: iterators that return Paddle tensors. Needs Paddle 2.0 or newer.

Dense outputs are Paddle tensors that share the pipeline's memory through DLPack. Outputs with a LoD level are LoD tensors: concatenated
samples of different lengths, with these lengths. LoD tensors are copies.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

try:
    import paddle
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "asyncdali.plugin.paddle needs PaddlePaddle 2.0 or newer: pip install paddlepaddle (or paddlepaddle-gpu)", name="paddle"
    ) from error

from ..tensors import TensorCPU, TensorGPU, TensorListCPU, TensorListGPU
from ..types import DALIDataType
from .base_iterator import BaseIterator
from .epochs import LastBatchPolicy

__all__ = [
    "DALIClassificationIterator", "DALIGenericIterator", "LastBatchPolicy", "TensorGPU", "TensorListCPU", "TensorListGPU", "dtype_map",
    "feed_ndarray", "lod_tensor_clip", "recursive_length", "to_paddle_type",
]  # fmt: skip

if int(paddle.__version__.partition(".")[0] or 0) == 1:
    raise ImportError(f"asyncdali.plugin.paddle needs PaddlePaddle 2.0 or newer, found {paddle.__version__}")

dtype_map = {
    DALIDataType.BOOL: "bool", DALIDataType.UINT8: "uint8", DALIDataType.INT8: "int8", DALIDataType.INT16: "int16",
    DALIDataType.INT32: "int32", DALIDataType.INT64: "int64", DALIDataType.FLOAT16: "float16", DALIDataType.FLOAT: "float32",
    DALIDataType.FLOAT64: "float64",
}  # fmt: skip
"""The name of Paddle's type for each element type that has one."""


def to_paddle_type(tensor: Any) -> Any:
    """Paddle's element type of a tensor. TypeError if Paddle has no such type."""
    name = dtype_map.get(tensor.dtype)
    if name is None:
        raise TypeError(f"PaddlePaddle has no type for {tensor.dtype.name}: cast the output, to INT32 for example")
    return getattr(paddle, name)


def feed_ndarray(dali_tensor: Any, ptr: Any, cuda_stream: Any = None) -> Any:
    """Copy a tensor or a uniform tensor list to the address `ptr` and return `ptr`. `cuda_stream` orders copies to a GPU."""
    dense = dali_tensor.as_tensor() if isinstance(dali_tensor, (TensorListCPU, TensorListGPU)) else dali_tensor
    address = ptr if isinstance(ptr, ctypes.c_void_p) else ctypes.c_void_p(int(ptr))
    if isinstance(dense, TensorCPU):
        dense.copy_to_external(address)
    else:
        dense.copy_to_external(address, cuda_stream)
    return ptr


def recursive_length(batch: Sequence[np.ndarray], lod_level: int) -> list[list[int]]:
    """Lengths of the samples of a batch along their first `lod_level` axes, outermost first, in the form of LoD tensors."""
    lengths: list[list[int]] = [[] for _ in range(lod_level)]
    for sample in batch:
        count = 1
        for level in range(lod_level):
            extent = sample.shape[level]
            lengths[level].extend([extent] * count)
            count *= extent
    return lengths


def lod_tensor_clip(lod_tensor: Any, size: int) -> Any:
    """The first `size` samples of a LoD tensor (a copy), or of a dense tensor (a slice)."""
    if not hasattr(lod_tensor, "recursive_sequence_lengths") or not lod_tensor.recursive_sequence_lengths():
        return lod_tensor[:size]
    lengths = lod_tensor.recursive_sequence_lengths()
    kept, count = [], size
    for level in lengths:
        kept.append(level[:count])
        count = sum(level[:count])
    return _lod_tensor(np.array(lod_tensor)[:count], kept)


def _lod_tensor(values: np.ndarray, lengths: list[list[int]]) -> object:
    core = getattr(paddle, "base", None) or paddle.fluid
    made = core.core.LoDTensor() if hasattr(core.core, "LoDTensor") else core.core.DenseTensor()
    made.set(np.ascontiguousarray(values), paddle.CPUPlace())
    made.set_recursive_sequence_lengths(lengths)
    return made


class DALIGenericIterator(BaseIterator):
    """Every `next` returns a list with a dict {name: tensor} for each pipeline.

    `output_map` has a name per output, or (name, LoD level): samples of different shapes need a level of at least 1. `dynamic_shape` is
    accepted for programs written for older versions. Other arguments and errors are those of
    :class:`~asyncdali.plugin.base_iterator.BaseIterator`; AssertionError for samples that differ in shape without a LoD level.
    """

    def __init__(
        self, pipelines: Any, output_map: Sequence[Any], size: int = -1, reader_name: str | None = None,
        auto_reset: str | bool | None = False,
        fill_last_batch: bool | None = None, dynamic_shape: bool | None = False, last_batch_padded: bool = False,
        last_batch_policy: LastBatchPolicy = LastBatchPolicy.FILL, prepare_first_batch: bool = True,
    ):  # fmt: skip
        pairs = [(item, 0) if isinstance(item, str) else (str(item[0]), int(item[1])) for item in output_map]
        self._lod_levels = dict(pairs)
        super().__init__(
            pipelines, [name for name, _ in pairs], size, reader_name, auto_reset, fill_last_batch, last_batch_padded, last_batch_policy,
            prepare_first_batch,
        )  # fmt: skip

    def _converted(self, outputs: tuple[object, ...], keep: int | None) -> dict[str, object]:
        tensors = {}
        for name, output in zip(self.output_map, outputs, strict=True):
            made = self._made(name, output)
            tensors[name] = made if keep is None else lod_tensor_clip(made, keep)
        return tensors

    def _made(self, name: str, output: Any) -> Any:
        level = self._lod_levels[name]
        if level == 0:
            assert output.is_dense_tensor(), (
                f"output {name!r}: samples of different shapes need a LoD level: ({name!r}, 1) in output_map, or crop or pad them"
            )
            to_paddle_type(output)  # raises for a type that Paddle does not have
            return paddle.utils.dlpack.from_dlpack(output.as_tensor().__dlpack__())
        samples = [np.asarray(sample) for sample in output.as_cpu()]
        lengths = recursive_length(samples, level)
        flat = [sample.reshape(-1, *sample.shape[level:]) for sample in samples]
        return _lod_tensor(np.concatenate(flat), lengths)


class DALIClassificationIterator(DALIGenericIterator):
    """:class:`DALIGenericIterator` for pipelines of two outputs, named "data" and "label"."""

    def __init__(
        self, pipelines: object, size: int = -1, reader_name: str | None = None, auto_reset: str | bool | None = False,
        fill_last_batch: bool | None = None, dynamic_shape: bool | None = False, last_batch_padded: bool = False,
        last_batch_policy: LastBatchPolicy = LastBatchPolicy.FILL, prepare_first_batch: bool = True,
    ):  # fmt: skip
        super().__init__(
            pipelines, ["data", "label"], size, reader_name, auto_reset, fill_last_batch, dynamic_shape, last_batch_padded,
            last_batch_policy, prepare_first_batch,
        )  # fmt: skip
