"""A pipeline's graph as JSON, and back. It contains no executable code."""

from __future__ import annotations

import base64
import enum
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import types
from ..data_node import DataNode, on_device
from ..operators import extensions
from ..operators.base import STORABLE
from .node import Definition, OperatorInstance, check_restored
from .plan import reachable

FORMAT = "asyncdali pipeline"
VERSION = 1
_ENUMS = (types.DALIDataType, types.DALIImageType, types.DALIInterpType, types.StreamPolicy, types.OperatorConcurrency)
_ENUM_NAMES = {kind.__name__: kind for kind in _ENUMS}


def encode_value(value: Any) -> Any:
    """A constant as JSON data. Values without a JSON form become tagged objects. TypeError for Python objects that are not storable."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, _ENUMS):
        return {"enum": type(value).__name__, "name": value.name}
    if isinstance(value, enum.Enum):
        raise TypeError(f"{value!r} cannot be stored")
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(value)
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        data = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
        return {"array": data, "dtype": value.dtype.str, "shape": list(value.shape)}
    if isinstance(value, (list, tuple)):
        return [encode_value(item) for item in value]
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"dict": [[key, encode_value(item)] for key, item in value.items()]}  # the order may matter
    if STORABLE.get(type(value).__name__) is type(value):
        return {"object": type(value).__name__, "fields": encode_value(value.stored())}
    raise TypeError(f"a {type(value).__name__} cannot be stored")


def decode_value(data: object) -> object:
    """The value that :func:`encode_value` stored."""
    if isinstance(data, list):
        return [decode_value(item) for item in data]
    if not isinstance(data, dict):
        return data
    if "enum" in data:
        return _ENUM_NAMES[data["enum"]][data["name"]]
    if "array" in data:
        dtype = np.dtype(data["dtype"])
        if dtype.kind not in "biuf":
            raise ValueError(f"arrays of {dtype} are not stored in pipelines")
        return np.frombuffer(base64.b64decode(data["array"]), dtype).reshape(data["shape"]).copy()
    if "bytes" in data:
        return base64.b64decode(data["bytes"])
    if "object" in data:
        return STORABLE[data["object"]].restored(decode_value(data["fields"]))
    return {str(key): decode_value(item) for key, item in data["dict"]}


def serialize(outputs: Sequence[DataNode], instances: Sequence[OperatorInstance], options: dict[str, object]) -> bytes:
    """The reachable operators and the `options` of a pipeline. RuntimeError names an operator that holds Python objects."""
    order = reachable(outputs, instances).order
    number = {id(instance): k for k, instance in enumerate(order)}

    def reference(node: DataNode) -> list[object]:
        return [number[id(node.source)], node.index, node.device]

    operators = []
    for instance in order:
        try:
            constants = {name: encode_value(value) for name, value in instance.constants.items()}
        except TypeError as error:
            what = f"`asyncdali.fn.{instance.schema.name}` ({instance.name})"
            raise RuntimeError(f"Could not serialize the operator: {what}: {error}") from error
        entry: dict[str, Any] = {"op": instance.schema.name, "name": instance.name, "device": instance.device, "constants": constants}
        if instance.inputs:
            entry["inputs"] = [reference(node) for node in instance.inputs]
        if instance.argument_inputs:
            entry["arguments"] = {name: reference(node) for name, node in instance.argument_inputs.items()}
        if instance.explicit_name:
            entry["named"] = True
        if instance.twin_of is not None and id(instance.twin_of) in number:
            entry["twin_of"] = number[id(instance.twin_of)]
        operators.append(entry)
    stored = {name: encode_value(value) for name, value in options.items()}
    result = [reference(node) for node in outputs]
    document = {"format": FORMAT, "version": VERSION, "options": stored, "operators": operators, "outputs": result}
    return (json.dumps(document, sort_keys=True, separators=(",", ":")) + "\n").encode()


def parse(data: object) -> dict[str, object]:
    """The checked outer structure; a pipeline of DALI is converted. TypeError unless it is bytes or text; RuntimeError if it is no
    pipeline."""
    if not isinstance(data, (bytes, bytearray, str)):
        raise TypeError(f"a serialized pipeline is bytes (what Pipeline.serialize() returned), got {type(data).__name__}")
    from . import dali_pipelines

    if not isinstance(data, str) and dali_pipelines.is_pipeline(data):
        data = dali_pipelines.converted(bytes(data))
    try:
        document = json.loads(data if isinstance(data, str) else bytes(data).decode())
    except (ValueError, RecursionError) as error:
        raise RuntimeError("Error parsing serialized pipeline: the data was not written by Pipeline.serialize()") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise RuntimeError("Error parsing serialized pipeline: the data was not written by Pipeline.serialize()")
    if document.get("version") != VERSION:
        raise RuntimeError(f"this pipeline has format version {document.get('version')}; this library reads version {VERSION}")
    return document


def options_of(document: dict[str, Any]) -> dict[str, object]:
    """The stored Pipeline options."""
    try:
        return {str(name): decode_value(value) for name, value in document["options"].items()}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RuntimeError(f"Error parsing serialized pipeline: bad options ({error})") from error


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a name: a string is expected")
    return value


def rebuild(document: dict[str, Any], definition: Definition) -> tuple[list[DataNode], list[OperatorInstance]]:
    """Output nodes and operator instances of a parsed document, defined in `definition`."""
    made: list[OperatorInstance] = []

    def node(reference: Any) -> DataNode:
        index, output, device = reference
        if not 0 <= index < len(made):
            raise ValueError(f"operator {index} is used before it is defined")
        output_node: DataNode = made[index].outputs[output]
        return on_device(output_node, device)

    try:
        for entry in document["operators"]:
            kind = extensions.find(entry["op"])
            if kind is None:
                raise RuntimeError(
                    f"the serialized pipeline has the operator {entry['op']!r}, which neither this library nor an installed package "
                    f"declares (entry points of the group {extensions.GROUP!r})"
                )
            twin = entry.get("twin_of")
            inputs = [node(item) for item in entry.get("inputs", ())]
            arguments = {name: node(item) for name, item in entry.get("arguments", {}).items()}
            constants = {name: decode_value(value) for name, value in entry["constants"].items()}
            constants = check_restored(kind.schema, entry["device"], inputs, arguments, constants)
            made.append(
                OperatorInstance(
                    kind.schema, _text(entry["name"]), entry["device"], inputs, arguments, constants,
                    explicit_name=bool(entry.get("named")), definition=definition, twin_of=None if twin is None else made[twin],
                )
            )  # fmt: skip
        return [node(item) for item in document["outputs"]], made
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise RuntimeError(f"Error parsing serialized pipeline: {type(error).__name__}: {error}") from error
