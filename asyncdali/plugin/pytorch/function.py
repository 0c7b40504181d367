"""Torch functions as operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ... import fn as _fn
from ... import ops as _ops


class _TorchFunction:
    """Gives a function torch tensors for DLPack capsules; what it returns goes back without a copy by the operator."""

    def __init__(self, function: Callable[..., Any]):
        if not callable(function):
            raise TypeError(f"`function` must be callable, got {type(function).__name__}")
        self.function = function

    @staticmethod
    def on_stream(stream: int, device: int) -> Any:
        """Within it torch works on a stream of the GPU (the pipeline's): there the arguments are ordered, and what the function returns."""
        return torch.cuda.stream(torch.cuda.ExternalStream(stream, device=device))

    def __call__(self, *arguments: Any) -> Any:
        return _exported(self.function(*map(_imported, arguments)))


def _imported(argument: Any) -> Any:
    return [torch.from_dlpack(item) for item in argument] if isinstance(argument, list) else torch.from_dlpack(argument)


def _exported(result: Any) -> Any:
    """Dense, detached tensors in place of the function's."""
    if isinstance(result, torch.Tensor):
        return result.detach().contiguous()
    if isinstance(result, (list, tuple)):
        return type(result)([_exported(item) for item in result])
    if result is None:
        return None
    raise TypeError(f"a torch function returns tensors, or lists or tuples of them; got {type(result).__name__}")


def torch_python_function(
    *inputs: Any, function: Callable[..., Any], num_outputs: int = 1, batch_processing: bool = True, **arguments: Any
) -> Any:
    """Call a function of torch tensors, in order, one call at a time.

    With `batch_processing` (as in DALI the default here) it gets a list of tensors per input and returns a list (or a tensor
    [samples, ...]) per output; otherwise it is called for each sample. Tensors are the pipeline's memory: to be read, not changed. On a GPU
    torch's current stream is the pipeline's while the function runs. Other arguments are those of ``fn.dl_tensor_python_function``. An
    exception fails the iteration: RuntimeError, with the original chained.
    """
    return _fn.dl_tensor_python_function(
        *inputs, function=_TorchFunction(function), num_outputs=num_outputs, batch_processing=batch_processing, **arguments
    )


class TorchPythonFunction:
    """The same as an operator object: ``TorchPythonFunction(function, num_outputs=1)(inputs)``; here `batch_processing` is off unless asked
    for."""

    def __init__(
        self, function: Callable[..., Any], num_outputs: int = 1, device: str = "cpu", batch_processing: bool = False, **arguments: Any
    ):
        self._operator = _ops.DLTensorPythonFunction(
            function=_TorchFunction(function), num_outputs=num_outputs, device=device, batch_processing=batch_processing, **arguments
        )

    def __call__(self, *inputs: Any, **arguments: Any) -> Any:
        return self._operator(*inputs, **arguments)

    @property
    def device(self) -> str:
        """The device given, or "cpu"."""
        return self._operator.device
