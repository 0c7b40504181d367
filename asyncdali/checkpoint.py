"""The checkpoint format: versioned JSON with a digest and nothing executable.

A checkpoint has the positions of all stateful operators after the last iteration returned to the user. It describes its graph, so that
differences can be reported. Keys of the body: ``format``, ``version``, ``library``, ``graph`` (see :func:`describe_graph`), ``operators``
{name: position}, ``iteration``, ``epoch``, ``iterator``. ``settings`` {name: value} has decisions of operators in ``build()`` that results
depend on. If sources have met the end of the epoch, ``ahead`` has three more keys. ``ended``: "here", or "ahead" if batches come before
the end. ``resets``: number of future ends that were already reset. ``more``: number of iterations in flight.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from typing import Any, NamedTuple

from .errors import CheckpointError, CheckpointTypeError
from .system.files import replace_file

FORMAT = "asyncdali checkpoint"
VERSION = 1


def _canonical(data: object) -> str:
    return json.dumps(data, sort_keys=True, separators=(",", ":"))


class State(NamedTuple):
    """The contents of a checkpoint besides the graph.

    operators   the state of each stateful operator and source, by name
    iterator    data of the iterator that consumes the pipeline
    settings    decisions of ``build()``, by the operator's name
    ahead       what the sources have answered ahead of the consumer
    """

    operators: dict[str, Any]
    iteration: int
    epoch: int
    iterator: Any
    settings: dict[str, Any]
    ahead: dict[str, Any]


def encode(graph_json: str, state: State, library: str) -> bytes:
    """The bytes of a checkpoint; `graph_json` is the canonical JSON of the graph's description (made once per pipeline)."""
    decided = f'"settings":{_canonical(state.settings)},' if state.settings else ""
    near = f'"ahead":{_canonical(state.ahead)},' if state.ahead else ""
    body = (
        f'{{{near}"epoch":{state.epoch},"format":{_canonical(FORMAT)},"graph":{graph_json},"iteration":{state.iteration},'
        f'"iterator":{_canonical(state.iterator)},"library":{_canonical(library)},"operators":{_canonical(state.operators)},'
        f'{decided}"version":{VERSION}}}'
    )
    digest = hashlib.sha256(body.encode()).hexdigest()
    return f'{{"body":{body},"digest":"{digest}"}}\n'.encode()


def decode(data: object) -> dict[str, Any]:
    """The body of a checkpoint (bytes, bytearray or str).

    CheckpointError unless it is a complete, unaltered checkpoint of a known version; CheckpointTypeError for other types.
    """
    if not isinstance(data, (bytes, bytearray, str)):
        raise CheckpointTypeError(f"a checkpoint is bytes (what Pipeline.checkpoint() returned), got {type(data).__name__}")
    if len(data) == 0:
        raise CheckpointError("There's no checkpoint for operator(s) of this pipeline: the checkpoint is empty.")
    try:
        text = data if isinstance(data, str) else bytes(data).decode("utf-8")
        outer = json.loads(text)
        body, digest = outer["body"], outer["digest"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CheckpointError(
            f"Failed to deserialize checkpoint: these {len(data)} bytes are not a checkpoint, or it was truncated"
        ) from error
    if not isinstance(body, dict) or body.get("format") != FORMAT:
        raise CheckpointError("Failed to deserialize checkpoint: this is not an asyncdali checkpoint")
    if hashlib.sha256(_canonical(body).encode()).hexdigest() != digest:
        raise CheckpointError("Failed to deserialize checkpoint: its content was altered (the digest does not match)")
    if body.get("version") != VERSION:
        raise CheckpointError(f"this checkpoint has format version {body.get('version')}; this library reads version {VERSION}")
    wrong = _wrong_parts(body)
    if wrong:
        raise CheckpointError(f"Failed to deserialize checkpoint: {', '.join(wrong)} missing or of the wrong kind")
    return body


_LARGEST = 2**62
"""Larger numbers of iterations and epochs cannot come from a run."""


def _wrong_parts(body: dict[str, Any]) -> list[str]:
    """Names of the parts of a body with the wrong kind. Readers of the body rely on the kinds that :func:`encode` writes."""
    wrong = [key for key in ("operators", "graph") if type(body.get(key)) is not dict]
    wrong += [key for key in ("iteration", "epoch") if type(body.get(key)) is not int or not 0 <= body[key] < _LARGEST]
    if type(body.get("settings", {})) is not dict:
        wrong.append("settings")
    if "graph" not in wrong and not _is_graph(body["graph"]):
        wrong.append("graph")
    if not _is_ahead(body.get("ahead", {})):
        wrong.append("ahead")
    return wrong


def _is_graph(graph: dict[str, object]) -> bool:
    operators = graph.get("operators", {})
    return type(operators) is dict and all(type(entry) is dict and _is_entry(entry) for entry in operators.values())


def _is_entry(entry: dict[str, object]) -> bool:
    parts = entry.get("parts", [])
    return (
        type(entry.get("args", {})) is dict and type(parts) is list and all(type(part) is dict and _is_graph(part) for part in parts)
    )


def _is_ahead(ahead: object) -> bool:
    kinds: dict[str, Callable[[Any], bool]] = {
        "ended": lambda value: value in ("here", "ahead"),
        "resets": lambda value: 0 < value <= 1000,
        "more": lambda value: -10_000 <= value <= 10_000,
    }
    types = {"ended": str, "resets": int, "more": int}
    if type(ahead) is not dict or not ahead.keys() <= kinds.keys():
        return False
    return all(type(value) is types[name] and kinds[name](value) for name, value in ahead.items()) and not (
        ahead.get("ended") == "here" and "resets" in ahead
    )


def write(path: str | os.PathLike[str], data: bytes) -> None:
    """Write atomically: after a crash the file has the old content or all of the new one. Permissions: see ``replace_file``."""
    replace_file(path, data, durable=True)


# --------------------------------------------------------------------------------------------------------------- the graph


def describe_graph(
    plan: Any, data: dict[str, tuple[int, str | None]], parts: dict[str, list[dict[str, Any]]] | None = None
) -> dict[str, Any]:
    """The description of a graph in a checkpoint: kinds, wiring, arguments that change the stream, data set sizes.

    `plan` is a ``graph.plan.Plan``. `data` maps reader names to (number of samples, digest of their names). `parts` maps names of sources
    to the descriptions of the graphs whose samples they regroup. The description does not contain seeds,
    folders, threads, queue depths, executor flags, hints, batch size and devices.
    """
    home: dict[int, str] = {}
    for planned in plan.operators:
        for index, edge in enumerate(planned.outputs):
            if planned.is_transfer:
                home[edge] = home[planned.inputs[0]]
            else:
                home[edge] = planned.spec.name if len(planned.outputs) == 1 else f"{planned.spec.name}[{index}]"
    operators = {}
    for planned in plan.operators:
        spec = planned.spec
        if planned.is_transfer:
            continue
        entry: dict[str, Any] = {"op": spec.schema.name}
        wiring = [home[edge] for edge in planned.inputs]
        wiring += [f"{name}={home[planned.arguments[name]]}" for name in sorted(planned.arguments)]
        if wiring:
            entry["in"] = wiring
        stream = {arg.name: spec.constants[arg.name] for arg in spec.schema.args if arg.stream and arg.name in spec.constants}
        stream = {name: value for name, value in stream.items() if value != spec.schema.by_name[name].default}
        if stream:
            entry["args"] = stream
        if spec.name in data:
            entry["samples"], names = data[spec.name]
            if names is not None:
                entry["names"] = names
        if parts and spec.name in parts:
            entry["parts"] = parts[spec.name]
        operators[spec.name] = entry
    return {"operators": operators, "outputs": [home[edge] for edge in plan.outputs]}


def graph_json(description: dict[str, Any]) -> str:
    """Canonical JSON of a description, for :func:`encode`."""
    return _canonical(description)


def differences(
    saved: dict[str, Any], here: dict[str, Any], first: str = "the checkpoint", second: str = "this pipeline"
) -> list[str]:
    """Readable differences between two descriptions of graphs: that of a checkpoint and this pipeline's, or others called `first` and
    `second`. Empty if there are none."""
    here = json.loads(_canonical(here))
    names = first, second
    restoring = names == ("the checkpoint", "this pipeline")
    result = []
    old, new = saved.get("operators", {}), here["operators"]
    for name in old:
        if name not in new:
            kind = old[name].get("op")
            unknown = f'The pipeline doesn\'t recognize "{name}" as a name of an operator'
            text = f"{unknown}; the checkpoint has a state for it (operator {kind})."
            result.append(text if restoring else f"{name}: only {first} has this operator ({kind})")
    for name in new:
        if name not in old:
            kind = new[name]["op"]
            missing = f'There\'s no checkpoint for operator "{name}" ({kind}).'
            result.append(missing if restoring else f"{name}: only {second} has this operator ({kind})")
        elif old[name] != new[name]:
            result.extend(_entry_differences(name, old[name], new[name], names))
    if saved.get("outputs") != here["outputs"]:
        result.append(f"outputs: {saved.get('outputs')} in {first}, {here['outputs']} in {second}")
    return result


def _entry_differences(name: str, old: dict[str, Any], new: dict[str, Any], names: tuple[str, str]) -> list[str]:
    first, second = names
    result = []
    labels = {"op": "operator", "in": "inputs", "samples": "data set size"}
    for key, label in labels.items():
        if old.get(key) != new.get(key):
            result.append(f"{name}: {label} {old.get(key)} in {first}, {new.get(key)} in {second}")
    if old.get("samples") == new.get("samples") and old.get("names", new.get("names")) != new.get("names"):
        result.append(
            f"{name}: the names of its files, or their order, or the sizes of its records, have changed since {first} (digest "
            f"{old['names']} in {first}, {new.get('names')} in {second})"
        )
    parts, parts_here = old.get("parts", []), new.get("parts", [])
    if len(parts) != len(parts_here):
        result.append(f"{name}: {len(parts)} parts in {first}, {len(parts_here)} in {second}")
    else:
        found = [differences(one, other, first, second) for one, other in zip(parts, parts_here, strict=True)]
        result += [f"{name}, part {k}: {text}" for k, texts in enumerate(found) for text in texts]
    before, after = old.get("args", {}), new.get("args", {})
    for argument in sorted(before.keys() | after.keys()):
        was, now = before.get(argument, "default"), after.get(argument, "default")
        if was != now:
            result.append(f"{name}: argument {argument} is {was} in {first}, {now} in {second}")
    return result
