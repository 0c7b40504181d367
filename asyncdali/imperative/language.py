"""Gives Tensors and Batches the functions of their methods, and types the making of tensors."""

from __future__ import annotations

import functools
from types import SimpleNamespace

from ..operators.base import REGISTRY
from . import arithmetic as arithmetic  # defines the operators of Python
from . import dtypes, values
from .calls import OperatorFunction, call, moved
from .conversion import broadcast, make_batch, make_tensor
from .cuda import copied_on_gpu
from .indexing import BatchedSlice, chosen_samples, selected
from .printing import described, shown
from .sharing import capsule, cuda_interface, dlpack_device, torch_batch, torch_tensor


@functools.cache
def _cast() -> OperatorFunction:
    return OperatorFunction(REGISTRY["cast"].schema)


def _converted(value: values.Held, kind: dtypes.DType) -> values.Held:
    result: values.Held = call(_cast(), [value], None, None, {"dtype": kind})
    return result


values.language = SimpleNamespace(
    make_tensor=make_tensor, make_batch=make_batch, broadcast=broadcast, converted=_converted, moved=moved, described=described,
    shown=shown, copied_on_gpu=copied_on_gpu,
    selected=selected, batched_slice=BatchedSlice, chosen_samples=chosen_samples, capsule=capsule, dlpack_device=dlpack_device,
    cuda_interface=cuda_interface, torch_tensor=torch_tensor, torch_batch=torch_batch,
)  # fmt: skip
dtypes.made_of = lambda value, kind: make_tensor(value, kind, None, None, copy=True)
