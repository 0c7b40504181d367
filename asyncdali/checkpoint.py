"""The checkpoint format: versioned JSON with a digest, nothing executable.

A checkpoint says where every stateful operator is after the last iteration returned to the user, and describes the graph it belongs
to, so that a mismatch can be reported readably. Keys of the body: ``format``, ``version``, ``library``, ``graph`` (see
:func:`describe_graph`), ``operators`` {name: position}, ``iteration``, ``epoch``, ``iterator``, and where operators decided something in
``build()`` that results depend on, ``settings`` {name: what}.
"""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any

from ._files import replace_file

FORMAT = "asyncdali checkpoint"
VERSION = 1


class CheckpointError(RuntimeError):
    """A checkpoint that cannot be used: not one, damaged, or of another pipeline."""


def _canonical(data: Any) -> str:
    return json.dumps(data, sort_keys=True, separators=(",", ":"))


def encode(
    graph_json: str,
    operators: dict[str, Any],
    iteration: int,
    epoch: int,
    iterator: Any,
    library: str,
    settings: dict[str, Any] | None = None,
) -> bytes:
    """The bytes of a checkpoint; `graph_json` is the canonical JSON of the graph's description (made once per pipeline)."""
    decided = f'"settings":{_canonical(settings)},' if settings else ""
    body = (
        f'{{"epoch":{epoch},"format":{_canonical(FORMAT)},"graph":{graph_json},"iteration":{iteration},"iterator":{_canonical(iterator)},'
        f'"library":{_canonical(library)},"operators":{_canonical(operators)},{decided}"version":{VERSION}}}'
    )
    digest = hashlib.sha256(body.encode()).hexdigest()
    return f'{{"body":{body},"digest":"{digest}"}}\n'.encode()


def decode(data: Any) -> dict[str, Any]:
    """The body of a checkpoint (bytes, bytearray or str).

    Raises CheckpointError for anything that is not a whole, unaltered checkpoint of a known version, TypeError for other types.
    """
    if not isinstance(data, (bytes, bytearray, str)):
        raise TypeError(f"a checkpoint is bytes (what Pipeline.checkpoint() returned), got {type(data).__name__}")
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
    wanted = {"operators": dict, "graph": dict, "iteration": int, "epoch": int}
    wrong = [key for key, kind in wanted.items() if type(body.get(key)) is not kind]
    if type(body.get("settings", {})) is not dict:
        wrong.append("settings")
    if wrong:
        raise CheckpointError(f"Failed to deserialize checkpoint: {', '.join(wrong)} missing or of the wrong kind")
    return body


def write(path: str | os.PathLike[str], data: bytes) -> None:
    """Write atomically: after a crash the file holds either the old content or all of the new. Permissions: see ``replace_file``."""
    replace_file(path, data, durable=True)


# --------------------------------------------------------------------------------------------------------------- the graph


def describe_graph(plan: Any, sizes: dict[str, int]) -> dict[str, Any]:
    """What a checkpoint says about its graph: kinds, wiring, arguments that change the stream, data set sizes.

    `plan` is a ``graph.plan.Plan``; `sizes` maps reader names to numbers of samples. Not in it: seeds, paths, threads, queue depths,
    executor flags, hints, batch size, devices.
    """
    home: dict[int, str] = {}
    for planned in plan.operators:
        for index, edge in enumerate(planned.outputs):
            if planned.spec.schema.name == "_transfer":
                home[edge] = home[planned.inputs[0]]
            else:
                home[edge] = planned.spec.name if len(planned.outputs) == 1 else f"{planned.spec.name}[{index}]"
    operators = {}
    for planned in plan.operators:
        spec = planned.spec
        if spec.schema.name == "_transfer":
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
        if spec.name in sizes:
            entry["samples"] = sizes[spec.name]
        operators[spec.name] = entry
    return {"operators": operators, "outputs": [home[edge] for edge in plan.outputs]}


def graph_json(description: dict[str, Any]) -> str:
    """Canonical JSON of a description, as :func:`encode` wants it."""
    return _canonical(description)


def differences(saved: dict[str, Any], here: dict[str, Any]) -> list[str]:
    """Readable differences between the graph of a checkpoint and this pipeline's; empty when they agree."""
    here = json.loads(_canonical(here))
    result = []
    old, new = saved.get("operators", {}), here["operators"]
    for name in old:
        if name not in new:
            kind = old[name].get("op")
            result.append(f'The pipeline doesn\'t recognize "{name}" as a name of an operator ({kind}); it is in the checkpoint.')
    for name in new:
        if name not in old:
            result.append(f'There\'s no checkpoint for operator "{name}" ({new[name]["op"]}).')
        elif old[name] != new[name]:
            result.extend(_entry_differences(name, old[name], new[name]))
    if saved.get("outputs") != here["outputs"]:
        result.append(f"outputs: {saved.get('outputs')} in the checkpoint, {here['outputs']} in this pipeline")
    return result


def _entry_differences(name: str, old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    result = []
    labels = {"op": "operator", "in": "inputs", "samples": "data set size"}
    for key, label in labels.items():
        if old.get(key) != new.get(key):
            result.append(f"{name}: {label} {old.get(key)} in the checkpoint, {new.get(key)} in this pipeline")
    before, after = old.get("args", {}), new.get("args", {})
    for argument in sorted(before.keys() | after.keys()):
        was, now = before.get(argument, "default"), after.get(argument, "default")
        if was != now:
            result.append(f"{name}: argument {argument} is {was} in the checkpoint, {now} in this pipeline")
    return result
