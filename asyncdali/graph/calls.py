"""The two calling styles, made from an operator's schema: functions for ``fn``, classes for ``ops``."""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any

from .._notices import warn
from ..operators.base import REQUIRED, Schema, camel_case
from . import node

NAMED_INPUTS = 8
"""Operators that take more inputs than this are documented with ``*inputs``."""


def docstring(schema: Schema) -> str:
    """The documentation of an operator, from its declaration."""
    lines = [inspect.cleandoc(schema.doc), "", f"Devices: {', '.join(schema.devices)}."]
    fewest, most = schema.inputs
    lines.append(f"Inputs: {fewest if fewest == most else f'{fewest} to {most}'}.")
    args = [arg for arg in schema.by_name.values() if not arg.name.startswith("_")]
    if args:
        lines += ["", "Args:"]
    for arg in args:
        default = "required" if arg.default is REQUIRED else f"default {arg.default!r}"
        lines.append(f"    {arg.name} ({arg.describe()}; {default}): {arg.doc}")
    return "\n".join(lines)


def signature(schema: Schema) -> inspect.Signature:
    """Python signature: inputs positional, arguments keyword-only."""
    kinds = inspect.Parameter
    parameters = [kinds(f"input_{k}", kinds.POSITIONAL_ONLY) for k in range(schema.inputs[0])]
    if schema.inputs[1] > NAMED_INPUTS:
        parameters.append(kinds("inputs", kinds.VAR_POSITIONAL))
    else:
        parameters += [kinds(f"input_{k}", kinds.POSITIONAL_ONLY, default=None) for k in range(schema.inputs[0], schema.inputs[1])]
    ordered = sorted(schema.by_name.values(), key=lambda arg: arg.default is not REQUIRED)
    for arg in ordered:
        default = kinds.empty if arg.default is REQUIRED else arg.default
        parameters.append(kinds(arg.name, kinds.KEYWORD_ONLY, default=default))
    return inspect.Signature(parameters)


def make_function(schema: Schema, name: str, deprecated_name: bool = False) -> Callable[..., Any]:
    """``fn.<name>(*inputs, **arguments)``."""

    def operator(*inputs: Any, **arguments: Any) -> Any:
        if deprecated_name:
            warn(f"fn.{name} is deprecated; use fn.{schema.name}", DeprecationWarning)
        return node.make(schema, inputs, arguments)

    operator.__name__ = operator.__qualname__ = name.rsplit(".", 1)[-1]
    operator.__module__ = "asyncdali.fn" + (f".{schema.module}" if schema.module else "")
    operator.__doc__ = docstring(schema)
    operator.schema = schema  # type: ignore[attr-defined]
    operator.__signature__ = signature(schema)  # type: ignore[attr-defined]
    return operator


def make_class(schema: Schema) -> type:
    """``ops.<Name>(**arguments)``, an object to be called with inputs (and further arguments)."""

    declared = schema  # in the class body `schema` is the property

    class OperatorObject:
        __doc__ = docstring(declared)
        _schema = declared

        def __init__(self, **arguments: Any):
            self._arguments = {key: value for key, value in arguments.items() if value is not None}
            from ..data_node import DataNode

            given = [key for key, value in self._arguments.items() if isinstance(value, DataNode)]
            if given:
                raise TypeError(f"ops.{schema.class_name}: {given[0]!r} is a DataNode; argument inputs are given when the object is called")
            node.split_arguments(schema, self._arguments)

        @property
        def schema(self) -> Schema:
            return declared

        def __call__(self, *inputs: Any, **arguments: Any) -> Any:
            arguments = {key: value for key, value in arguments.items() if value is not None}
            twice = self._arguments.keys() & arguments.keys()
            if twice:
                raise ValueError(f"ops.{schema.class_name}: {', '.join(sorted(twice))} given both when it was made and when it was called")
            return node.make(schema, inputs, {**self._arguments, **arguments})

    OperatorObject.__name__ = OperatorObject.__qualname__ = schema.class_name
    OperatorObject.__module__ = "asyncdali.ops" + (f".{schema.module}" if schema.module else "")
    return OperatorObject


def _submodule(parent: types.ModuleType, path: str) -> types.ModuleType:
    """The (nested) submodule `path` of `parent`, made if needed, importable by name."""
    module = parent
    for part in path.split("."):
        full = f"{module.__name__}.{part}"
        child = sys.modules.get(full)
        if child is None:
            child = types.ModuleType(full, f"Operators {full.removeprefix('asyncdali.')}.*")
            sys.modules[full] = child
        setattr(module, part, child)
        module = child
    return module


def populate(root: types.ModuleType, schemas: Iterable[Schema], style: str) -> None:
    """Fill ``fn`` (style "fn") or ``ops`` (style "ops") with all operators and their deprecated names."""
    for schema in schemas:
        if schema.hand_written or (style == "ops" and schema.name.startswith("_")):
            continue
        for name in (schema.name, *schema.aliases):
            path, _, last = name.rpartition(".")
            home = _submodule(root, path) if path else root
            if style == "fn":
                setattr(home, last, make_function(schema, name, deprecated_name=name != schema.name))
            else:
                setattr(home, camel_case(last), make_class(schema))
