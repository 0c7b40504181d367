"""Tensors and Batches for other libraries: DLPack, torch, the CUDA array interface."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..tensors.dlpack import CPU_DEVICE, export
from ..types.enums import ENUMERATIONS
from .values import Batch, Tensor


def _readable(value: Tensor) -> np.ndarray:
    samples = value._samples()
    if samples.dtype in ENUMERATIONS:
        raise TypeError(f"a tensor of {value.dtype} has no type in other libraries; cast it to ndd.int32 first")
    return samples.sample(0)


def capsule(value: Tensor, stream: Any, max_version: Any, dl_device: Any, copy: bool | None) -> Any:
    """The DLPack capsule of a tensor."""
    if value._place != "cpu":
        from .cuda import exported, is_real

        if is_real(value):
            return exported(value).__dlpack__(stream=stream)
    return export(_readable(value), max_version, dl_device, copy)


def dlpack_device(value: Tensor) -> tuple[int, int]:
    """The DLPack device of a tensor."""
    if value._place != "cpu":
        from .cuda import is_real

        if is_real(value):
            return 2, value.device.device_id or 0
    return CPU_DEVICE


def cuda_interface(value: Tensor) -> dict[str, Any]:
    """The CUDA array interface. AttributeError for tensors that are not in a GPU's memory."""
    if value._place != "cpu":
        from .cuda import exported, is_real

        if is_real(value):
            found: dict[str, Any] = exported(value).__cuda_array_interface__
            return found
    raise AttributeError("a tensor on the CPU has no __cuda_array_interface__")


def torch_tensor(value: Tensor, copy: bool) -> Any:
    """A torch tensor over a tensor's memory, or over a copy."""
    import torch

    if value._place != "cpu":
        from .cuda import exported, is_real

        if is_real(value):
            found = torch.from_dlpack(exported(value))
            return found.clone() if copy else found
    found = torch.from_numpy(_readable(value))
    return found.clone() if copy else found


def torch_batch(batch: Batch, copy: bool | None, pad: bool) -> Any:
    """One torch tensor of all samples; see :meth:`Batch.torch`."""
    from .conversion import stacked

    whole = stacked(batch, pad)
    samples, made = batch._samples(), whole._samples()
    shares = len(samples) > 0 and int(made.addresses[0]) == int(samples.addresses[0])
    if copy is False and not shares and len(samples):
        raise ValueError("the samples do not lie one behind the other, so one torch tensor needs a copy; copy=False forbids it")
    return torch_tensor(whole, bool(copy) and shares)
