"""Tensors and tensor lists: the results of `run`, and wrappers for users' own data.

A list is a view of a placed `Batch`: making one costs nothing per sample. Every view (a tensor, a numpy array, a DLPack capsule) keeps the
memory alive. Memory is accessed through a small interface (`HostMemory`), so a CUDA device can give the GPU classes its own arrays. On the
host device GPU tensors are in plain memory.

May import `batch`, `types` and the workers' memory limits; never a device.
"""

from __future__ import annotations

from .._absent import refuser
from .cpu import TensorCPU, TensorListCPU
from .gpu import TensorGPU, TensorListGPU

__all__ = ["TensorCPU", "TensorGPU", "TensorListCPU", "TensorListGPU"]


_PRINTED = "use str() or repr() of a tensor or tensor list"

__getattr__ = refuser(__name__, {
    "PipelineBatchAdapter": _PRINTED, "PipelineTensorAdapter": _PRINTED, "format_batch": _PRINTED, "format_tensor": _PRINTED,
})  # fmt: skip
