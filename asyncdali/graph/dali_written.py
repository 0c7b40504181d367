"""Graphs in the form in which DALI 2 serializes pipelines. :mod:`.dali_pipelines` reads this form.

Operators have the names and the order that DALI gives them, so automatic seeds are the same. What DALI cannot run is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ..dali_files.protobuf import encoded
from ..data_node import DataNode
from ..operators import load_registry
from ..operators.base import REGISTRY, Operator, Role, Schema, Spec
from ..options import PipelineOptions
from ..types import CPU_ONLY_DEVICE_ID, DALIDataType, OperatorConcurrency, StreamPolicy
from .calls import schema_name
from .dali_pipelines import DYNAMIC, OPERATIONS, OTHER_NAMES, SEPARATED
from .node import OperatorInstance
from .plan import reachable

_OPERATIONS = {own: theirs for theirs, own in OPERATIONS.items()}
_INTERNAL = {"eager", "program", "expression"}
"""Arguments that passes over the graph set."""

_CONCURRENCY = {None: 4, OperatorConcurrency.NONE: 2, OperatorConcurrency.BACKEND: 4, OperatorConcurrency.FULL: 6}
_STREAMS = {None: 0, StreamPolicy.SINGLE: 16, StreamPolicy.PER_BACKEND: 32, StreamPolicy.PER_OPERATOR: 48}
_STRING, _FLOAT = 1, 2
"""Kinds of features of TFRecord files; 0 is an integer."""

_TYPES = {"int": "int64", "dtype": "int64", "image_type": "int64", "interp": "int64", "float": "float", "bool": "bool"}
"""Types of arguments in DALI's files by the kinds of arguments here; all others are texts."""


class WrittenArgument(NamedTuple):
    """An argument: its type in DALI's files, and its value, or its values if it is a list."""

    kind: str
    value: Any


Arguments = dict[str, WrittenArgument]


def written(outputs: Sequence[DataNode], instances: Sequence[OperatorInstance], options: PipelineOptions) -> bytes:
    """The pipeline as DALI 2.4 serializes it. RuntimeError names what DALI does not have."""
    _check_options(options)
    graph = _Written()
    for instance in reachable(outputs, instances).order:
        try:
            graph.add(instance)
        except (TypeError, ValueError, OverflowError) as error:
            raise RuntimeError(_refused(instance, str(error))) from error
    edges = [graph.output_edge(node, *found) for node, *found in zip(outputs, *_expected(options, len(outputs)), strict=True)]
    return encoded([*_first_options(options), *((5, item) for item in graph.operators), *((7, edge) for edge in edges), *_options(options)])


def _refused(instance: OperatorInstance, reason: str) -> str:
    return f"Could not serialize the operator `asyncdali.fn.{instance.schema.name}` ({instance.name}) for DALI: {reason}"


def _check_options(options: PipelineOptions) -> None:
    if options.batch_size is None:
        raise RuntimeError("a pipeline that is serialized for DALI needs `batch_size`")
    for name in ("on_error", "quarantine"):
        if getattr(options, name) != getattr(PipelineOptions(), name):
            raise RuntimeError(f"DALI's format has no option `{name}`: {getattr(options, name)!r} cannot be serialized for DALI")


def _expected(options: PipelineOptions, count: int) -> tuple[list[Any], list[Any]]:
    """The declared element types and ranks of the outputs."""
    return options.expected("output_dtype", count), options.expected("output_ndim", count)


def _first_options(options: PipelineOptions) -> list[tuple[int, int]]:
    return [(1, 4 if options.num_threads is None else int(options.num_threads)), (2, int(options.batch_size))]


def _options(options: PipelineOptions) -> list[tuple[int, int]]:
    bits = int(options.exec_pipelined) | 2 * int(options.exec_async)
    bits |= SEPARATED * options.exec_separated | DYNAMIC * bool(options.exec_dynamic)
    flags = int(options.set_affinity) | _CONCURRENCY[options.concurrency] | _STREAMS[options.stream_policy]
    sizes = options.bytes_per_sample
    seed = [] if options.seed is None else [(9, int(options.seed))]
    return [
        (8, CPU_ONLY_DEVICE_ID if options.device_id is None else int(options.device_id)), *seed, (10, int(options.enable_checkpointing)),
        (11, bits), (12, flags), (13, options.cpu_queue_size), (14, options.gpu_queue_size), (15, int(sizes or 0)),
    ]  # fmt: skip


def _edge(name: str, device: str, argument: str = "") -> bytes:
    named = [(3, 1), (4, argument.encode())] if argument else [(3, 0)]
    return encoded([(1, name.encode("utf-8", "surrogateescape")), (2, device.encode()), *named])


class _Written:
    """The operators that were written so far."""

    def __init__(self) -> None:
        self.operators: list[bytes] = []
        self._edges: dict[tuple[int, int], str] = {}  # names of outputs, by instance and number
        self._sets: dict[int, int] = {}  # numbers of the calls with several input sets, by their first instance
        self._calls = 0

    def _name(self, node: DataNode) -> str:
        return self._edges[id(node.source), node.index]

    def output_edge(self, node: DataNode, dtype: Any, ndim: Any) -> bytes:
        """The edge of an output of the pipeline, with its declared element type and rank."""
        kind, rank = -1 if dtype is None else int(dtype), -1 if ndim is None else int(ndim)
        return encoded([(1, self._name(node).encode("utf-8", "surrogateescape")), (2, node.device.encode()), (3, 0), (5, kind), (6, rank)])

    def add(self, instance: OperatorInstance) -> None:
        """Write an instance. It may be several operators of DALI."""
        declaration = _checked(instance)
        named = [_edge(self._name(node), node.device, name) for name, node in instance.argument_inputs.items()]
        inputs = [_edge(self._name(node), node.device) for node in instance.inputs]
        first = instance if instance.twin_of is None else instance.twin_of
        parts = list(_PARTS.get(declaration.kind, _one)(instance))
        if not parts:
            raise ValueError("the operator has no index")
        for k, (kind, name, arguments) in enumerate(parts):
            call = self._sets.setdefault(id(first), self._calls) if k == 0 else self._calls
            self._calls = max(self._calls, call) + (call == self._calls)
            last = k == len(parts) - 1
            count = len(instance.outputs) if last else 1
            made = [name] if count == 1 else [f"{name}[{number}]" for number in range(count)]
            device = "cpu" if instance.device == "cpu" else "gpu"
            preserved = {"device": WrittenArgument("string", instance.device), **arguments}
            preserved["preserve_name"] = WrittenArgument("bool", instance.explicit_name)
            fields: list[tuple[int, Any]] = [(1, kind.encode())]
            fields += [(2, edge) for edge in (inputs + (named if k == 0 else []))]
            fields += [(3, _edge(edge, device)) for edge in made]
            fields += [(4, _argument(key, *value)) for key, value in preserved.items()]
            self.operators.append(encoded([*fields, (5, name.encode("utf-8", "surrogateescape")), (6, call)]))
            inputs = [_edge(edge, device) for edge in made]
        self._edges.update({(id(instance), index): edge for index, edge in enumerate(made)})

class _Declaration(NamedTuple):
    """The name of an operator's declaration in DALI's files, and the operator's class here."""

    kind: str
    operator: type[Operator]


@cache
def _declarations() -> dict[int, _Declaration]:
    """The declarations by the identities of the schemas here."""
    found = {id(operator.schema): _Declaration(schema_name(name), operator) for name, operator in load_registry().items()}
    other = {theirs: REGISTRY[own] for theirs, own in OTHER_NAMES.items()}
    del other["_SubscriptDimCheck"]  # one of the forms of another operator
    return found | {id(operator.schema): _Declaration(theirs, operator) for theirs, operator in other.items()}


def _checked(instance: OperatorInstance) -> _Declaration:
    """The declaration of an operator. TypeError if DALI cannot run the operator."""
    schema = instance.schema
    found = _declarations().get(id(schema))
    if found is None:
        raise TypeError("the operator belongs to another package")
    if schema.calls_python and schema.role is not Role.INPUT:
        raise TypeError("the operator calls a Python function, which DALI does not store")
    if schema.only_here:
        raise TypeError("DALI does not have the operator")
    return found


def _names(instance: OperatorInstance) -> list[str]:
    """The names of the instance's operators in DALI."""
    constants = {name: value for name, value in instance.constants.items() if name != "seed"}
    counts = len(instance.inputs), len(instance.outputs)
    spec = Spec(instance.schema, instance.name, instance.device, constants, tuple(sorted(instance.argument_inputs)), *counts, None)
    return _declarations()[id(instance.schema)].operator.names_for_dali(spec)


Part = tuple[str, str, Arguments]
"""An operator of DALI: the name of its declaration, its own name, its arguments."""


def _one(instance: OperatorInstance) -> list[Part]:
    (name,) = _names(instance)
    return [(_declarations()[id(instance.schema)].kind, name, _converted(instance.schema, instance.constants))]


def _converted(schema: Schema, constants: dict[str, Any]) -> Arguments:
    """The arguments as DALI stores them. ValueError for an argument that DALI's operator does not have."""
    found = {}
    for name, value in constants.items():
        arg = schema.by_name[name]
        if name in _INTERNAL or value is None:
            continue
        if arg.only_here:
            if value != arg.default:
                raise ValueError(f"DALI's operator has no argument `{name}`")
            continue
        kind = _TYPES.get(arg.kind.removesuffix("_list"), "string")
        if arg.kind == "any" and not isinstance(value, str):
            raise ValueError(f"argument `{name}` is {value!r}; only a string can be stored")
        found[name] = WrittenArgument(kind, list(value) if arg.is_list else value)
    return found


def _arithmetic(instance: OperatorInstance) -> list[Part]:
    """``add(&0 $0:int32)``: inputs by number, constants by number and type, integers and reals counted each for themselves."""
    integers: list[int] = []
    reals: list[float] = []
    operands = []
    for operand in instance.constants["operands"]:
        if isinstance(operand, int):
            operands.append(f"&{operand}")
            continue
        value, dtype = operand
        dtype = DALIDataType(dtype)
        real = dtype.name.startswith("FLOAT")
        chosen: list[Any] = reals if real else integers
        operands.append(f"${len(chosen)}:{_type_name(dtype)}")
        chosen.append(_real(value, dtype) if real else _integer(value))
    op = instance.constants["op"]
    text = f"{_OPERATIONS.get(op, op)}({' '.join(operands)})"
    arguments = {"expression_desc": WrittenArgument("string", text)}
    if integers:
        arguments["integer_constants"] = WrittenArgument("int64", integers)
    if reals:
        arguments["real_constants"] = WrittenArgument("float", reals)
    if instance.constants.get("preserve"):
        arguments["preserve"] = WrittenArgument("bool", True)
    return [("_ArithmeticGenericOp", _names(instance)[-1], arguments)]


def _type_name(dtype: DALIDataType) -> str:
    return {DALIDataType.FLOAT: "float32"}.get(dtype, dtype.name.lower())


def _real(value: Any, dtype: DALIDataType) -> float:
    if dtype is DALIDataType.FLOAT64 and float(np.float32(value)) != value and value == value:
        raise ValueError(f"the constant {value!r} is FLOAT64, and DALI stores 32-bit floats")
    return float(value)


def _integer(value: Any) -> int:
    if not -(1 << 63) <= int(value) < 1 << 63:
        raise ValueError(f"the constant {value!r} does not fit into 64 bits with a sign")
    return int(value)


_BOUNDS = ("at", "lo", "hi", "step")


def _subscript(instance: OperatorInstance) -> Iterable[Part]:
    """DALI has operators of their own for indices and for new axes."""
    given = dict(instance.constants)
    axes, axis_names = given.pop("new_axes", []), given.pop("new_axis_names", None)
    names = iter(_names(instance))
    bounds = {name: WrittenArgument("int64", value) for name, value in given.items() if name.partition("_")[0] in _BOUNDS}
    chosen = bounds or any(name.partition("_")[0] in _BOUNDS for name in instance.argument_inputs)
    count = {"num_subscripts": WrittenArgument("int64", given.get("count", 0))}
    for name in names:
        if axes and name.startswith("__ExpandDims_"):
            expanded = {"axes": WrittenArgument("int64", list(axes))}
            if axis_names:
                expanded["new_axis_names"] = WrittenArgument("string", axis_names)
            yield "ExpandDims", name, expanded
        else:
            yield "_TensorSubscript" if chosen else "_SubscriptDimCheck", name, {**bounds, **count}


def _constant(instance: OperatorInstance) -> list[Part]:
    given = instance.constants
    dtype, values = DALIDataType(given["dtype"]), np.asarray(given["value"])
    arguments: Arguments = {}
    if dtype.name.startswith("FLOAT"):
        arguments["fdata"] = WrittenArgument("float", [_real(value, dtype) for value in values.reshape(-1).tolist()])
    else:
        arguments["idata"] = WrittenArgument("int64", [_integer(value) for value in values.reshape(-1).tolist()])
    arguments["shape"] = WrittenArgument("int64", list(values.shape))
    arguments["dtype"] = WrittenArgument("int64", int(dtype))
    if given.get("layout"):
        arguments["layout"] = WrittenArgument("string", given["layout"])
    return [("Constant", _names(instance)[-1], arguments)]


def _split(instance: OperatorInstance) -> list[Part]:
    ((kind, name, arguments),) = _one(instance)
    return [(kind, name, {"_if_stmt": WrittenArgument("bool", True), **arguments})]


def _records(instance: OperatorInstance) -> list[Part]:
    """A reader of TFRecord files. A feature is an element with arguments of its own."""
    constants = dict(instance.constants)
    features = constants.pop("features")
    (name,) = _names(instance)
    arguments = _converted(instance.schema, constants)
    arguments["feature_names"] = WrittenArgument("string", list(features))
    arguments["features"] = WrittenArgument("TFRecord", list(features.values()))
    return [("readers___TFRecord", name, arguments)]


_PARTS: dict[str, Callable[[OperatorInstance], Iterable[Part]]] = {
    "_ArithmeticGenericOp": _arithmetic, "_TensorSubscript": _subscript, "_Constant": _constant, "_conditional__Split": _split,
    "readers___TFRecord": _records,
}  # fmt: skip
"""Operators whose arguments have another form in DALI's files."""


def _argument(name: str, kind: str, value: object) -> bytes:
    fields: list[tuple[int, Any]] = [(1, name.encode("utf-8", "surrogateescape")), (2, kind.encode())]
    if isinstance(value, list):
        return encoded([*fields, *((7, _element(f"element {k}", kind, item)) for k, item in enumerate(value)), (8, 1)])
    return encoded([*fields, _value(kind, value), (8, 0)])


def _element(name: str, kind: str, value: object) -> bytes:
    if kind == "TFRecord":
        return _feature(name, value)
    return encoded([(1, name.encode()), (2, kind.encode()), _value(kind, value), (8, 0)])


def _value(kind: str, value: Any) -> tuple[int, Any]:
    if kind == "float":
        return 3, float(value)
    if kind == "string":
        return 5, value.encode("utf-8", "surrogateescape")
    return (6, int(bool(value))) if kind == "bool" else (4, int(value))


def _feature(name: str, feature: Any) -> bytes:
    """A declared feature of a TFRecord file."""
    if feature.partial:
        raise ValueError("DALI does not store the partial shape of a VarLenFeature")
    shape: list[tuple[int, Any]] = [(2, b"int64")] if feature.shape else []
    shape += [(4, int(extent)) for extent in feature.shape or ()]
    text = feature.kind == _STRING
    default = ("" if text else 0) if feature.default is None else feature.default
    if text and not isinstance(default, str):
        default = bytes(default).decode("utf-8", "surrogateescape")
    kind = "string" if text else "float" if feature.kind == _FLOAT else "int64"
    parts = [
        _argument("type", "int64", int(feature.kind)), _argument("has_shape", "bool", feature.shape is not None),
        encoded([(1, b"shape"), *shape, (8, 0)]), _argument("default_value", kind, default),
    ]  # fmt: skip
    return encoded([(1, name.encode()), (2, b"TFRecord"), *((7, part) for part in parts), (8, 0)])
