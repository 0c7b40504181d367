"""Torch functions as operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch

from ... import fn as _fn
from ... import ops as _ops


class _TorchFunction:
    """Wraps a function of torch tensors as a function of DLPack capsules. The operator takes the returned tensors without a copy."""

    def __init__(self, function: Callable[..., object]):
        if not callable(function):
            raise TypeError(f"`function` must be callable, got {type(function).__name__}")
        self.function = function

    @staticmethod
    def on_stream(stream: int, device: int) -> Any:
        """Within this context torch works on the pipeline's stream of the GPU. The arguments and results are ordered on this stream."""
        return torch.cuda.stream(torch.cuda.ExternalStream(stream, device=device))

    def __call__(self, *arguments: object) -> Any:
        return _exported(self.function(*map(_imported, arguments)))


def _imported(argument: object) -> object:
    return [torch.from_dlpack(item) for item in argument] if isinstance(argument, list) else torch.from_dlpack(argument)


def _exported(result: object) -> object:
    """Convert the function's tensors to dense, detached tensors."""
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

    With `batch_processing` (the default here, as in DALI) the function gets a list of tensors per input. It returns a list, or a tensor
    [samples, ...], per output. Otherwise the function is called for each sample. Tensors are the pipeline's memory: the function may read
    them, but must not change them. On a GPU torch's current stream is the pipeline's while the function runs. Other arguments are those of
    ``fn.dl_tensor_python_function``. An exception fails the iteration with a RuntimeError that chains the original exception.
    """
    return _fn.dl_tensor_python_function(
        *inputs, function=_TorchFunction(function), num_outputs=num_outputs, batch_processing=batch_processing, **arguments
    )


class TorchPythonFunction:
    """The same as an operator object: ``TorchPythonFunction(function, num_outputs=1)(inputs)``. The default of `batch_processing` is False
    here."""

    def __init__(
        self,
        function: Callable[..., Any],
        num_outputs: int = 1,
        device: Literal["cpu", "gpu"] = "cpu",
        batch_processing: bool = False,
        **arguments: Any,
    ):
        self._operator = _ops.DLTensorPythonFunction(
            function=_TorchFunction(function), num_outputs=num_outputs, device=device, batch_processing=batch_processing, **arguments
        )

    def __call__(self, *inputs: object, **arguments: object) -> Any:
        return self._operator(*inputs, **arguments)

    @property
    def device(self) -> str:
        """The given device, or "cpu"."""
        return self._operator.device
