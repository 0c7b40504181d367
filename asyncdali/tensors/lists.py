"""Tensor lists for the other rooms: made over batches of the runtime, and seen as batches and arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..batch import Batch
from .cpu import TensorListCPU
from .gpu import TensorGPU, TensorListGPU

cpu_list = TensorListCPU._from_batch
"""A list over a placed batch; no copy and nothing per sample. ``cpu_list(batch)``."""

gpu_list = TensorListGPU._from_batch
"""The same on a device. ``gpu_list(batch, device_id, stream, memory)``; `memory` is the device's counterpart of `HostMemory`."""


def makers(device_id: int, memory: object) -> dict[str, Callable[[Batch], TensorListCPU | TensorListGPU]]:
    """By a batch's device, the function that makes its list: :func:`cpu_list`, or :func:`gpu_list` with these arguments."""
    return {"cpu": cpu_list, "gpu": functools.partial(TensorListGPU._placed, device_id=max(device_id, 0), stream=None, memory=memory)}


def made_by(tensors: TensorListCPU | TensorListGPU, moment: object) -> TensorListCPU | TensorListGPU:
    """`tensors`, with the iteration that made the list; see ``TensorList.provenance``."""
    tensors.moment = moment
    return tensors


shared_array = TensorListCPU._to_share
"""A list of equal shapes as one array, which libraries that accept arrays take more quickly than a DLPack capsule."""


def array_of(value: object) -> Any:
    """The device's array of a TensorGPU; other objects are returned unchanged."""
    return value._array if isinstance(value, TensorGPU) else value


def memory_of(tensors: TensorListGPU) -> Any:
    """The memory of the device that has the tensors, see ``gpu_list``."""
    return tensors._memory


def batch_of(tensors: TensorListCPU) -> Batch:
    """The batch that a list views."""
    return tensors._batch
