"""Operators as functions of dynamic mode, generated from their declarations."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

from ..graph.calls import NAMED_INPUTS
from ..operators.base import REQUIRED, Role, Schema
from . import language as language  # gives Tensors and Batches their methods
from .calls import OperatorFunction, call
from .work import plainly


def is_function(schema: Schema) -> bool:
    """Whether dynamic mode has a function for an operator."""
    if schema.name.rpartition(".")[2].startswith("_") or schema.graphs_only or schema.hand_written or schema.calls_python:
        return False
    return schema.role is Role.WORK and not schema.module.endswith(("readers", "inputs"))


def input_names(schema: Schema) -> list[str]:
    """Names of the positional inputs."""
    fewest, most = schema.inputs
    if schema.input_names:
        return list(schema.input_names)
    shown = most if most <= NAMED_INPUTS else fewest
    return ["input"] if most == 1 else [f"input_{k}" for k in range(shown)]


def signature(function: OperatorFunction) -> inspect.Signature:
    """Positional-only inputs, then keywords in alphabetical order, `rng` last."""
    schema, kinds = function.schema, inspect.Parameter
    parameters = []
    names = input_names(schema)
    for k, name in enumerate(names):
        parameters.append(kinds(name, kinds.POSITIONAL_ONLY, default=kinds.empty if k < schema.inputs[0] else None))
    if schema.inputs[1] > NAMED_INPUTS:
        parameters.append(kinds("inputs", kinds.VAR_POSITIONAL))
    parameters += [kinds("batch_size", kinds.KEYWORD_ONLY, default=None), kinds("device", kinds.KEYWORD_ONLY, default=None)]
    for name in sorted(function.arguments):
        default = function.arguments[name].default
        parameters.append(kinds(name, kinds.KEYWORD_ONLY, default=kinds.empty if default is REQUIRED else default))
    if function.random:
        parameters.append(kinds("rng", kinds.KEYWORD_ONLY, default=None))
    return inspect.Signature(parameters)


def docstring(function: OperatorFunction) -> str:
    """The documentation of a function, from the operator's declaration."""
    schema = function.schema
    lines = [inspect.cleandoc(schema.doc), "", f"Devices: {', '.join('gpu' if name == 'mixed' else name for name in schema.devices)}."]
    lines += ["", "Args:"]
    lines += [f"    {name}: a Tensor, a Batch, or data for `ndd.as_tensor`." for name in input_names(schema)]
    lines.append("    batch_size: number of samples; the result is a Batch even if no input is one.")
    lines.append('    device: "cpu" or "gpu"; by default that of the inputs.')
    for name in sorted(function.arguments):
        arg = function.arguments[name]
        default = "required" if arg.default is REQUIRED else f"default {arg.default!r}"
        kind = arg.describe().replace("DataNode", "Tensor or Batch")
        lines.append(f"    {name} ({kind}; {default}): {arg.doc}")
    if function.random:
        lines.append("    rng: an `ndd.random.RNG`; by default the generator of the thread.")
    return "\n".join(lines)


def make_function(schema: Schema, module: str) -> Callable[..., Any]:
    """The function of an operator, for the module `module`."""
    function = OperatorFunction(schema)

    def operator(*inputs: object, batch_size: object = None, device: object = None, rng: object = None, **arguments: object) -> Any:
        try:
            return call(function, inputs, batch_size, device, arguments, rng)
        except Exception as error:
            raise plainly(error) from None

    operator.__name__ = operator.__qualname__ = schema.name.rpartition(".")[2]
    operator.__module__ = module
    operator.__doc__ = docstring(function)
    operator.__signature__ = signature(function)  # type: ignore[attr-defined]
    operator.schema = schema  # type: ignore[attr-defined]
    return operator


def old_names(schemas: Iterable[Schema]) -> dict[str, str]:
    """The names of operators by their deprecated names."""
    return {alias: schema.name for schema in schemas if is_function(schema) for alias in schema.aliases if "." not in alias}


def operator_makers(schemas: Iterable[Schema]) -> dict[str, Callable[[str], object]]:
    """For each operator a function that makes its function, given the name of the module."""
    return {schema.name: functools.partial(make_function, schema) for schema in schemas if is_function(schema)}
