"""Tensors and tensor lists: the results of `run`, and wrappers for users' own data.

A list is a view of a placed `Batch`: making one costs nothing per sample. Every view (a tensor, a numpy array, a DLPack capsule) keeps the
memory alive. Memory is accessed through a small interface (`HostMemory`), so a CUDA device can give the GPU classes its own arrays. On the
host device GPU tensors are in plain memory.

    batches.py      Batches behind tensor lists: made of arrays and tensors in place, sliced, and inspected
    checks.py       Checks of users' arguments about tensors: layouts, types, shapes
    cpu.py          TensorCPU and TensorListCPU
    data.py         Converts data that a source returned, or a user fed, to a batch
    dlpack.py       DLPack in host memory: import and export
    foreign.py      Access to the memory of users' objects: numpy arrays, buffers, DLPack
    gpu.py          TensorGPU and TensorListGPU, of a GPU or of the host device
    host_memory.py  Access of tensors to plain memory, and checks of users' addresses
    lists.py        Tensor lists for the other rooms: made over batches of the runtime, and seen as batches and arrays
    pictures.py     Pictures of arrays: colours, marks, compression
    printing.py     Tensors and tensor lists as text, in DALI's format
    rendering.py    Values as HTML: pictures, numbers, ranges, histograms
    sounds.py       Sounds as HTML: waveform, spectrogram, player
    tensor.py       The common base of tensors of all devices
    tensor_list.py  The common base of tensor lists of all devices

May import `batch`, `types` and the workers' memory limits; never a device.
"""

from __future__ import annotations

from ..messages.absent import refuser
from .cpu import TensorCPU, TensorListCPU
from .gpu import TensorGPU, TensorListGPU

__all__ = ["TensorCPU", "TensorGPU", "TensorListCPU", "TensorListGPU"]


_PRINTED = "use str() or repr() of a tensor or tensor list"

__getattr__ = refuser(__name__, {
    "PipelineBatchAdapter": _PRINTED, "PipelineTensorAdapter": _PRINTED, "format_batch": _PRINTED, "format_tensor": _PRINTED,
})  # fmt: skip
