"""Jax functions as operators."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, overload

from ...graph.calls import make_function
from .operator import JaxFunction

_call = make_function(JaxFunction.schema, JaxFunction.schema.name)


@overload
def jax_function(
    function: Callable[..., object],
    num_outputs: int = 1,
    output_layouts: str | Sequence[str] | None = None,
    sharding: object = None,
    device: str | None = None,
    preserve: bool = True,
) -> Callable[..., Any]: ...
@overload
def jax_function(
    function: None = None,
    num_outputs: int = 1,
    output_layouts: str | Sequence[str] | None = None,
    sharding: object = None,
    device: str | None = None,
    preserve: bool = True,
) -> Callable[[Callable[..., object]], Callable[..., Any]]: ...
def jax_function(
    function: Callable[..., object] | None = None,
    num_outputs: int = 1,
    output_layouts: str | Sequence[str] | None = None,
    sharding: object = None,
    device: str | None = None,
    preserve: bool = True,
) -> Any:
    """Turn a function of jax arrays into a function of nodes, which can be called in a graph.

    The function is called once per batch, in order, with an array [samples, ...] for each input; samples must have one shape. It returns
    `num_outputs` such arrays, as a tuple if there are several. It may be jitted, vmapped and so on.

    Args:
        output_layouts: layouts of the output samples. Default: the layout of the input of the same number, if the ranks agree. A str holds
            for all outputs.
        sharding: the arrays for the function are split over it. This process must be able to address the returned arrays.
        device: "cpu" or "gpu": where the pipeline has inputs and outputs. Default: the device of the inputs.
        preserve: call the function although no operator uses its outputs.

    An exception of the function fails the iteration with a RuntimeError that chains the original exception.
    """
    if function is None:
        return functools.partial(
            jax_function, num_outputs=num_outputs, output_layouts=output_layouts, sharding=sharding, device=device, preserve=preserve
        )
    if not callable(function):
        raise TypeError(f"jax_function needs a function, got {type(function).__name__}")
    layouts = [output_layouts] * num_outputs if isinstance(output_layouts, str) else output_layouts
    arguments: dict[str, Any] = {"function": function, "num_outputs": num_outputs, "preserve": preserve}
    optional = {"output_layouts": layouts, "sharding": sharding, "device": device}
    arguments.update({key: value for key, value in optional.items() if value is not None})

    @functools.wraps(function)
    def call(*inputs: object) -> Any:
        return _call(*inputs, **arguments)

    return call
