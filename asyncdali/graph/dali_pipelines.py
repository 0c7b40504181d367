"""Serialized pipelines of DALI 2: their graph as one of this library, in the form that ``serialize`` stores.

Operators keep their names and their order, so automatic seeds are those of DALI. Operators without a counterpart are refused by name.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

from ..dali_files.protobuf import NUMBER, WORD, Message, WireError, integer, message, part, parts, signed, text
from ..data_node import DataNode, on_device
from ..operators import load_registry
from ..operators.base import REGISTRY, STORABLE, Role, Schema
from ..options import PipelineOptions
from ..types import CPU_ONLY_DEVICE_ID, DALIDataType
from . import serialize
from .calls import schema_name
from .node import Definition, OperatorInstance, check_restored, split_arguments

OTHER_NAMES = {
    "readers___TFRecord": "readers.tfrecord", "_conditional__Not_": "_conditional.not_", "_SubscriptDimCheck": "_tensor_subscript",
}  # fmt: skip
"""Names of declarations in DALI's files that do not follow from the names of this library."""

OPERATIONS = {
    "fdiv": "div", "div": "fdiv", "neq": "ne", "leq": "le", "geq": "ge", "bitand": "and", "bitor": "or", "bitxor": "xor", "minus": "neg",
    "bitnot": "invert",
}  # fmt: skip
"""Names of operations that are others in DALI's files."""

_NUMBERS = {
    "bool": DALIDataType.BOOL, "float": DALIDataType.FLOAT, "float16": DALIDataType.FLOAT16, "float32": DALIDataType.FLOAT,
    "float64": DALIDataType.FLOAT64, "double": DALIDataType.FLOAT64,
    **{f"{sign}int{bits}": DALIDataType[f"{sign}INT{bits}".upper()] for sign in ("", "u") for bits in (8, 16, 32, 64)},
}  # fmt: skip

_IGNORED = {"device", "preserve_name", "checkpointing", "default_cuda_stream_priority", "max_batch_size", "num_threads", "device_id"}
"""Arguments that say nothing about results, or that are read elsewhere."""

SEPARATED, DYNAMIC = 4, 8

_ALWAYS_WRITTEN = {1, 2, 8, 10, 11, 12, 13, 14, 15}
"""Options that DALI 2.4 always writes, the last ones behind the graph. The format has no digest, so a cut file is noticed by these."""


class Edge(NamedTuple):
    """A use of an output: its name, the device where it is wanted, and the argument that it is, or ""."""

    name: str
    device: str
    argument: str


def is_pipeline(data: object) -> bool:
    """Whether the data looks like a pipeline that DALI has serialized."""
    if not isinstance(data, (bytes, bytearray)) or not data or data[:1] == b"{":
        return False
    try:
        numbers = {field.number for field in message(bytes(data))}
    except WireError:
        return False
    return {2, 5, 7} <= numbers and numbers <= set(range(1, 16))


def converted(data: bytes) -> bytes:
    """The stored pipeline of this library that has the graph and the options of DALI's `data`.

    RuntimeError names an operator or an argument without a counterpart.
    """
    try:
        fields = message(bytes(data))
        graph = _Graph()
        for operator in parts(fields, 5):
            graph.add(message(operator))
        outputs = [(graph.node(_edge(edge)), message(edge)) for edge in parts(fields, 7)]
        if not {field.number for field in fields} >= _ALWAYS_WRITTEN:
            raise WireError("the options are missing, so the data was cut")
        options = _options(fields, [edge for _, edge in outputs])
    except WireError as error:
        raise RuntimeError(f"Error parsing serialized pipeline of DALI: {error}") from error
    return serialize.serialize([node for node, _ in outputs], graph.definition.instances, options)


def _options(fields: Message, outputs: Sequence[Message]) -> dict[str, Any]:
    bits, flags = integer(fields, 11, 11), integer(fields, 12)
    cpu, gpu = integer(fields, 13, 2), integer(fields, 14, 2)
    device, seeds = integer(fields, 8, CPU_ONLY_DEVICE_ID), [field.value for field in fields if field.number == 9]
    found: dict[str, Any] = {
        "num_threads": integer(fields, 1, 4), "batch_size": integer(fields, 2),
        "device_id": None if device == CPU_ONLY_DEVICE_ID else device,
        "seed": signed(int(seeds[-1])) if seeds else None, "enable_checkpointing": bool(integer(fields, 10)),
        "exec_pipelined": bool(bits & 1), "exec_async": bool(bits & 2), "set_affinity": bool(flags & 1),
        "prefetch_queue_depth": {"cpu_size": cpu, "gpu_size": gpu} if bits & SEPARATED else cpu, "bytes_per_sample": integer(fields, 15),
        "exec_dynamic": bool(bits & DYNAMIC),
    }  # fmt: skip
    dtypes, ranks = [integer(edge, 5, -1) for edge in outputs], [integer(edge, 6, -1) for edge in outputs]
    wrong = [rank for rank in ranks if rank < -1] or [dtype for dtype in dtypes if dtype != -1 and dtype not in set(DALIDataType)]
    if wrong:
        raise WireError(f"an output has the rank or the element type {wrong[0]}")
    if any(dtype != -1 for dtype in dtypes):
        found["output_dtype"] = [None if dtype == -1 else DALIDataType(dtype) for dtype in dtypes]
    if any(rank != -1 for rank in ranks):
        found["output_ndim"] = [None if rank == -1 else rank for rank in ranks]
    defaults = PipelineOptions()
    return {name: value for name, value in found.items() if value != getattr(defaults, name)}


def _edge(data: bytes) -> Edge:
    fields = message(data)
    return Edge(text(fields, 1), text(fields, 2), text(fields, 4) if integer(fields, 3) else "")


@cache
def _schemas() -> dict[str, Schema]:
    """The declarations by their names in DALI's files."""
    found = {schema_name(alias): operator.schema for operator in load_registry().values() for alias in operator.schema.aliases}
    found |= {schema_name(name): operator.schema for name, operator in load_registry().items()}
    return found | {name: REGISTRY[own].schema for name, own in OTHER_NAMES.items()}


class _Graph:
    """The operators that were read so far."""

    def __init__(self) -> None:
        self.definition = Definition(PipelineOptions())
        self._nodes: dict[str, DataNode] = {}
        self._first: dict[int, OperatorInstance] = {}  # instances of one call with several input sets have one number

    def node(self, edge: Edge) -> DataNode:
        if edge.name not in self._nodes:
            raise WireError(f"the output {edge.name!r} is used before an operator makes it")
        if edge.device not in ("cpu", "gpu"):
            raise WireError(f"the output {edge.name!r} is wanted on the device {edge.device!r}")
        return on_device(self._nodes[edge.name], edge.device)

    def add(self, fields: Message) -> None:
        """Add one operator."""
        kind, name = text(fields, 1), text(fields, 5)
        schema = _schemas().get(kind)
        if schema is None or schema.composed_of:
            raise RuntimeError(f"the pipeline of DALI has the operator {kind} (name {name!r}), which this library does not have")
        if schema.calls_python and schema.role is not Role.INPUT:
            raise RuntimeError(f"the operator {kind} (name {name!r}) calls a Python function, which DALI does not store")
        given = dict(_argument(message(argument)) for argument in parts(fields, 4))
        edges = [_edge(edge) for edge in parts(fields, 2)]
        inputs = [self.node(edge) for edge in edges if not edge.argument]
        nodes = {edge.argument: self.node(edge) for edge in edges if edge.argument}
        device, explicit, seed = str(given.get("device", "cpu")), bool(given.get("preserve_name", True)), given.pop("seed", None)
        constants = {key: value for key, value in given.items() if not key.startswith("_") and key not in _IGNORED}
        if seed is not None and schema.seeded:
            constants["seed"] = seed
        try:
            constants = {**_old_defaults(schema, kind), **_SPECIAL.get(kind, dict)(constants)}
            checked = check_restored(schema, device, inputs, nodes, constants)
            _, nodes = split_arguments(schema, {**constants, **nodes})
            number = integer(fields, 6, -1)
            instance = OperatorInstance(
                schema, name, device, inputs, nodes, checked, explicit_name=explicit, definition=self.definition,
                twin_of=self._first.get(number),
            )  # fmt: skip
        except WireError:
            raise
        except (KeyError, TypeError, ValueError, IndexError, RuntimeError) as error:
            reason = error.args[0] if isinstance(error, KeyError) and error.args else error
            raise RuntimeError(f"the operator {kind} (name {name!r}) of DALI's pipeline cannot be made: {reason}") from error
        if number >= 0:
            self._first.setdefault(number, instance)
        self.definition.add(instance)
        made = [_edge(edge).name for edge in parts(fields, 3)]
        if len(made) != len(instance.outputs):
            here = len(instance.outputs)
            raise RuntimeError(f"the operator {kind} (name {name!r}) has {len(made)} outputs in DALI's pipeline, here {here}")
        self._nodes.update(zip(made, instance.outputs, strict=True))


def _old_defaults(schema: Schema, kind: str) -> dict[str, Any]:
    """The defaults of an operator that the file has under a deprecated name, where they are not those of the new name."""
    return next((defaults for old, defaults in schema.old_defaults.items() if schema_name(old) == kind), {})


def _argument(fields: Message) -> tuple[str, Any]:
    """The name and the value of an argument."""
    values: list[Any] = []
    for field in fields:
        if field.number == 3 and field.kind == WORD:
            values.append(struct.unpack("<f", int(field.value).to_bytes(4, "little"))[0])
        elif field.number == 4 and field.kind == NUMBER:
            values.append(signed(int(field.value)))
        elif field.number == 5:
            values.append(part([field], 5).decode("utf-8", "surrogateescape"))
        elif field.number == 6 and field.kind == NUMBER:
            values.append(bool(field.value))
        elif field.number == 7:
            values.append(_element(message(part([field], 7))))
    listed = bool(integer(fields, 8))
    return text(fields, 1), values if listed or len(values) != 1 else values[0]


def _element(fields: Message) -> Any:
    """The value of an element of a list. A declared feature is the dict of its arguments."""
    if parts(fields, 7):
        found = {}
        for nested in parts(fields, 7):
            arguments = message(nested)
            name, value = _argument(arguments)
            found[name] = ([value] if not isinstance(value, list) else value) if name == "shape" else value
        return found
    return _argument(fields)[1]


_EXPRESSION = re.compile(r"(\w+)\(([^()]*)\)", re.ASCII)


def _expression(constants: dict[str, Any]) -> dict[str, Any]:
    """The arguments of an operation from ``add(&0 $0:int32)``: input 0, and the first constant of the list for its type."""
    match = _EXPRESSION.fullmatch(str(constants.get("expression_desc", "")))
    if match is None:
        raise ValueError(f"{constants.get('expression_desc')!r} is no expression")
    integers, reals = (_as_list(constants.get(name, [])) for name in ("integer_constants", "real_constants"))
    operands: list[Any] = []
    for operand in match[2].split():
        if operand.startswith("&"):
            operands.append(int(operand[1:]))
            continue
        number, _, kind = operand.removeprefix("$").partition(":")
        dtype = _NUMBERS[kind]
        value = (reals if dtype.name.startswith("FLOAT") else integers)[int(number)]
        operands.append([bool(value) if dtype is DALIDataType.BOOL else value, dtype])
    return {"op": OPERATIONS.get(match[1], match[1]), "operands": operands}


def _as_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _indices(constants: dict[str, Any]) -> dict[str, Any]:
    rest = {name: value for name, value in constants.items() if name != "num_subscripts"}
    return {"count": constants.get("num_subscripts", 0), **rest}


def _features(constants: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a reader of TFRecord files. Of a feature of variable length DALI does not store the partial shape."""
    names, features = _as_list(constants.pop("feature_names", [])), _as_list(constants.pop("features", []))
    if len(names) != len(features) or not all(isinstance(feature, dict) for feature in features):
        raise ValueError("the names and declarations of features do not fit together")
    made = {}
    for name, feature in zip(names, features, strict=True):
        shape = feature.get("shape", []) if feature.get("has_shape", True) else None
        stored = {"shape": shape, "kind": feature["type"], "default": feature.get("default_value"), "partial": ()}
        made[name] = STORABLE["Feature"].restored(stored)
    return {**constants, "features": made}


_SPECIAL: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "_ArithmeticGenericOp": _expression, "_TensorSubscript": _indices, "_SubscriptDimCheck": _indices, "readers___TFRecord": _features,
}  # fmt: skip
"""Operators whose arguments have another form in DALI's files."""
