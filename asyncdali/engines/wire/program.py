"""The program of an engine: the graph, the options, the seed. An engine gets it once, at build. Later requests contain only positions."""

from __future__ import annotations

import dataclasses
import io
import pickle
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from asyncdali_workers.pickling import dumps_by_value

from ...access import Access
from ...data_node import DataNode, on_device
from ...graph.node import Definition, OperatorInstance
from ...graph.plan import reachable
from ...operators.base import REGISTRY
from ...options import PipelineOptions
from ...sources.group import Group
from ..cut import by_position


@dataclass
class Program:
    """A pipeline's graph as an engine needs it.

    Attributes:
        calling: see ``Environment.calling``.
        cut: names of operators to cut behind; None: the default cut.
    """

    options: PipelineOptions
    outputs: list[DataNode]
    instances: Sequence[OperatorInstance]
    seed: int
    access: Access
    calling: Callable[[], AbstractContextManager[None]]
    cut: list[str] | None = None
    definition: Definition | None = None
    """The definition that the operators were added to; used for messages. None in a fresh interpreter."""
    entered: Callable[[], None] | None = None
    """A function that is called first in a process forked for the engines."""


@dataclass
class _Stored:
    """Copy a program without references between its operators, because a graph may be deeper than pickle's recursion limit."""

    options: dict[str, Any]
    operators: list[dict[str, Any]]
    outputs: list[tuple[int, int, str]]
    seed: int
    access: Access
    cut: list[str] | None
    make_calling: Any
    extra: dict[str, Any] = field(default_factory=dict)


_LEFT_OUT = ("checkpoint", "py_callback_pickler", "engines")


def dumps(program: Program, make_calling: object) -> bytes:
    """Serialize the program for a fresh interpreter, by cloudpickle.

    There `make_calling` (an importable function) makes `calling` from (options, seed). A PicklingError or TypeError names an operator that
    cannot be pickled.
    """
    order = reachable(program.outputs, program.instances).order
    number = {id(instance): k for k, instance in enumerate(order)}

    def reference(node: DataNode) -> tuple[int, int, str]:
        return number[id(node.source)], node.index, node.device

    operators = []
    for instance in order:
        twin = instance.twin_of
        entry = {
            "schema": instance.schema.name, "name": instance.name, "device": instance.device,
            "inputs": [reference(node) for node in instance.inputs],
            "arguments": {name: reference(node) for name, node in instance.argument_inputs.items()},
            "constants": _constants(instance), "explicit": instance.explicit_name,
            "twin": None if twin is None or id(twin) not in number else number[id(twin)], "trace": instance.trace,
            "homeless": instance.definition() is None,
        }  # fmt: skip
        operators.append(entry)
    options = {item.name: getattr(program.options, item.name) for item in dataclasses.fields(program.options)}
    for name in _LEFT_OUT:
        del options[name]
    stored = _Stored(
        options, operators, [reference(node) for node in program.outputs], program.seed, program.access, program.cut, make_calling,
        {"preserved": [number[id(item)] for item in program.instances if item.preserve], "sources": _sources(program, order)},
    )  # fmt: skip
    data: bytes = dumps_by_value(stored)
    return data


def _sources(program: Program, order: Sequence[OperatorInstance]) -> list[tuple[bytes, list[int]]]:
    """The sources that engines may call, and the operators that each belongs to."""
    if not program.options.engine_sources:
        return []
    found: dict[int, tuple[Group, list[int]]] = {}
    for k, instance in enumerate(order):
        group = instance.attachment
        if isinstance(group, Group) and by_position(group):
            found.setdefault(id(group), (group, []))[1].append(k)
    return [(_source(group, order[places[0]]), places) for group, places in found.values()]


def _source(group: Group, instance: OperatorInstance) -> bytes:
    try:
        data: bytes = dumps_by_value(dataclasses.replace(group, cuda_stream=None))
        return data
    except Exception as error:
        raise _untravelled(
            error,
            f"The source of the external input {instance.name!r} cannot be sent to engines, which are not forked from this process "
            f"(engine_start_method): {error}. With engine_sources=False this process calls all sources",
        ) from error


def _untravelled(error: Exception, text: str) -> Exception:
    kind = type(error) if type(error) in (TypeError, AttributeError, ValueError, pickle.PicklingError) else pickle.PicklingError
    return kind(text)


def _constants(instance: OperatorInstance) -> bytes:
    """The constant arguments of an operator, pickled separately, so an error names the operator."""
    try:
        data: bytes = dumps_by_value(instance.constants)
        return data
    except Exception as error:
        raise _untravelled(
            error,
            f"`asyncdali.fn.{instance.schema.name}` ({instance.name}) cannot be sent to engines, which are not forked from this process "
            f"(engine_start_method): {error}",
        ) from error


def loads(data: bytes) -> Program:
    """Load the program of :func:`dumps`. The bytes contain code, so they must come from the parent, over a private descriptor."""
    from ... import fn  # noqa: F401  registers the operators

    stored: _Stored = pickle.load(io.BytesIO(data))
    options = PipelineOptions(**stored.options)
    made: list[OperatorInstance] = []

    def node(reference: tuple[int, int, str]) -> DataNode:
        index, output, device = reference
        return on_device(made[index].outputs[output], device)

    for entry in stored.operators:
        instance = OperatorInstance(
            REGISTRY[entry["schema"]].schema, entry["name"], entry["device"], [node(item) for item in entry["inputs"]],
            {name: node(item) for name, item in entry["arguments"].items()}, pickle.loads(entry["constants"]),
            explicit_name=entry["explicit"], definition=None, twin_of=None if entry["twin"] is None else made[entry["twin"]],
        )  # fmt: skip
        instance.trace = entry["trace"]
        made.append(instance)
    for content, places in stored.extra["sources"]:
        group = pickle.loads(content)
        for k in places:
            made[k].attachment = group
    instances = [made[k] for k in stored.extra["preserved"]]
    return Program(
        options, [node(item) for item in stored.outputs], instances, stored.seed, stored.access,
        stored.make_calling(options, stored.seed), stored.cut,
    )  # fmt: skip
