"""Operators as functions of dynamic mode, generated from their declarations."""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any

from ..graph.calls import NAMED_INPUTS
from ..operators.base import REQUIRED, Schema
from . import language as language  # gives Tensors and Batches their methods
from .calls import OperatorFunction, call

ABSENT = {"constant", "shapes", "ssd_random_crop"}
"""Operators of graphs that have no use here. Sources, Python functions and readers have none either; their declarations tell."""

INPUT_NAMES = {
    "bbox_rotate": ("bboxes", "labels"), "decoders.image_slice": ("data", "anchor", "shape_input"), "decoders.numpy": ("data",),
    "decoders.video": ("encoded",), "expand_dims": ("data",), "experimental.remap": ("input", "mapx", "mapy"),
    "experimental.warp_perspective": ("input", "matrix_input"), "filter": ("data", "filter", "fill_value"), "full": ("fill_value",),
    "full_like": ("data_like", "fill_value"), "io.file.read": ("filepaths",), "ones_like": ("data_like",), "random.beta": ("shape_like",),
    "random.choice": ("a", "shape_like"), "random.coin_flip": ("shape_like",), "random.normal": ("shape_like",),
    "random.uniform": ("shape_like",), "random_bbox_crop": ("boxes", "labels"), "reductions.std_dev": ("data", "mean"),
    "reductions.variance": ("data", "mean"), "reinterpret": ("data", "shape_input"), "reshape": ("data", "shape_input"),
    "segmentation.select_masks": ("mask_ids", "polygons", "vertices"), "slice": ("data", "anchor", "shape_input"), "squeeze": ("data",),
    "warp_affine": ("data", "mtx"), "zeros_like": ("data_like",),
}  # fmt: skip
"""Names of positional inputs for documentation, where they are not "input" or "input_<k>"."""


def is_function(schema: Schema) -> bool:
    """Whether dynamic mode has a function for an operator."""
    name = schema.name
    if name.rpartition(".")[2].startswith("_") or name in ABSENT or schema.hand_written or schema.calls_python:
        return False
    return schema.module not in ("readers", "experimental.readers", "inputs", "experimental.inputs")


def input_names(schema: Schema) -> list[str]:
    """Names of the positional inputs."""
    fewest, most = schema.inputs
    known = INPUT_NAMES.get(schema.name)
    if known is not None:
        return list(known)
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

    def operator(*inputs: Any, batch_size: Any = None, device: Any = None, rng: Any = None, **arguments: Any) -> Any:
        return call(function, inputs, batch_size, device, arguments, rng)

    operator.__name__ = operator.__qualname__ = schema.name.rpartition(".")[2]
    operator.__module__ = module
    operator.__doc__ = docstring(function)
    operator.__signature__ = signature(function)  # type: ignore[attr-defined]
    operator.schema = schema  # type: ignore[attr-defined]
    return operator


def submodule(root: types.ModuleType, path: str, doc: str) -> types.ModuleType:
    """The module `path` below `root`: one that exists, or a new one."""
    module = root
    for part in path.split("."):
        full = f"{module.__name__}.{part}"
        child = sys.modules.get(full)
        if child is None:
            child = sys.modules[full] = types.ModuleType(full, doc)
        setattr(module, part, child)
        module = child
    return module


def populate(root: types.ModuleType, schemas: Iterable[Schema]) -> None:
    """Fill `root` and its submodules with the functions of operators."""
    for schema in schemas:
        if not is_function(schema):
            continue
        path, _, last = schema.name.rpartition(".")
        home = submodule(root, path, f"Operators {path}.*") if path else root
        setattr(home, last, make_function(schema, home.__name__))
