"""Data for an input on a GPU. Data that is already in the GPU's memory does not move to the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..batch import Batch
from ..tensors import TensorGPU, TensorListGPU
from ..tensors.data import InvalidData, check_ranks, check_types, origins_of, tensor_traits
from ..tensors.foreign import UnsupportedTypeError
from ..tensors.gpu import stream_handle
from ..tensors.lists import array_of, memory_of

if TYPE_CHECKING:
    from ..device.cuda.fed_arrays import FedArrays

_OWN_STREAM = -1


class DeviceData:
    """Batches of arrays in the memory of the pipeline's GPU: TensorGPU, TensorListGPU, arrays of CuPy and torch, DLPack objects."""

    def __init__(self, arrays: FedArrays, no_copy: bool):
        self._arrays = arrays
        self._no_copy = no_copy

    def batch(self, data: object, whole: bool, stream: object) -> Batch | None:
        """The batch of `data`; None if the data is not on a GPU. `whole`: `data` may be one object for a batch; otherwise it is a list of
        samples.

        `stream` is the stream on which the data is ready: a handle or an object; None: the stream that the data names. See ``FedArrays``.
        """
        handle = stream_handle(stream)
        handle = None if handle == _OWN_STREAM else handle
        if isinstance(data, TensorListGPU):
            return self._tensor_list(data)
        if isinstance(data, (list, tuple)):
            made = self._arrays.alike(data, handle, self._no_copy) if data else None
            if made is not None:
                return made
            return self._samples(data, handle) if data and self._is_here(data[0]) else None
        if not whole or not self._is_here(data):
            return None
        made = self._taken([array_of(data)], True, handle)
        if isinstance(data, TensorGPU):
            made.dtype = data.dtype
            made.source_info = origins_of([data] * len(made))
        return made

    def _is_here(self, value: object) -> bool:
        return self._arrays.has(array_of(value))

    def _samples(self, items: Sequence[object], stream: int | None) -> Batch:
        arrays = [array_of(item) for item in items]
        k = self._arrays.first_elsewhere(arrays)
        if k is not None:
            raise InvalidData(f"sample {k}: samples in CPU memory and samples in GPU memory cannot be mixed in one batch")
        layout, kind = tensor_traits(items)
        made = self._taken(arrays, False, stream)
        made.layout, made.source_info = layout, origins_of(items)
        if kind is not None:
            made.dtype = kind
        return made

    def _taken(self, arrays: Sequence[object], whole: bool, stream: int | None) -> Batch:
        found = self._arrays.find(arrays, stream)
        if whole and not found[0].shape:
            raise InvalidData("a batch has at least one dimension, got a scalar; its first axis counts samples")
        check_types(found)
        check_ranks(found)
        try:
            return self._arrays.batch(found, whole, self._no_copy)
        except TypeError as error:
            raise UnsupportedTypeError(str(error)) from error

    def _tensor_list(self, tensors: TensorListGPU) -> Batch | None:
        return self._arrays.batch_of(tensors._batch, self._no_copy) if self._arrays.owns(memory_of(tensors)) else None
