"""The handshake: an engine may make iterations only if it would make the same bits as the training process.

Each side describes itself: its graph, the versions of the packages that results come from, and the processor that kernels are compiled for.
An engine sends its description when it is ready. The training process compares, and refuses an engine that differs.
"""

from __future__ import annotations

import functools
import hashlib
import json
import platform
from collections.abc import Iterable
from enum import Enum
from importlib import metadata
from types import CodeType
from typing import Any

import numpy as np

from ..._version import __version__
from ...graph.plan import Plan, PlannedOperator
from ...options import PipelineOptions
from .reach import reached

PACKAGES = ("numpy", "numba", "llvmlite", "opencv-python-headless", "pillow", "av", "soundfile")
"""Distributions whose code computes results. A missing distribution is described as missing."""

Description = dict[str, dict[str, str]]
"""A description, by part ("graph", "code", "packages", "processor") and name."""


def description(
    plan: Plan, options: PipelineOptions, seed: int, operators: Iterable[object], far: Iterable[PlannedOperator] | None = None
) -> Description:
    """The description of this process. `operators` are the operators built for the part before the cut.

    `far`: the operators that engines on other machines run. These engines load a program of their own, so everything that the functions
    of these operators reach is described, too. Engines of this machine get the program from this process.
    """
    made = {"graph": _graph(plan, options, seed, operators)}
    if far is not None:
        made["code"] = reached(far)
    return {**made, "packages": _packages(), "processor": _processor()}


def difference(here: Description, there: object) -> str:
    """The differences, with both values, for the error; empty if there are none. `there` arrived over a socket."""
    found = []
    for part, names in here.items():
        other = there.get(part) if isinstance(there, dict) else None
        other = other if isinstance(other, dict) else {}
        for name in dict.fromkeys([*names, *other]):
            mine, theirs = names.get(name, "nothing"), other.get(name, "nothing")
            if mine != theirs:
                mine, theirs = _shorter(mine, str(theirs))
                found.append(f"{part}, {name}: {mine} here, {theirs} there")
    return "; ".join(found[:_MOST])


_MOST = 6


def _shorter(mine: str, theirs: str) -> tuple[str, str]:
    """Reduce two long lists to the items that they do not share."""
    if "," in mine:
        ours, others = mine.split(","), theirs.split(",")
        mine, theirs = (",".join(item for item in ours if item not in others), ",".join(item for item in others if item not in ours))
    return mine[:400] or "nothing", theirs[:400] or "nothing"


def _graph(plan: Plan, options: PipelineOptions, seed: int, operators: Iterable[Any]) -> dict[str, str]:
    data = {built.planned.spec.name: built.operator.digest() for built in operators if hasattr(built.operator, "digest")}
    made = {"seed": str(seed), "batch size": str(options.batch_size), "checkpointing": str(bool(options.enable_checkpointing))}
    for planned in plan.operators:
        spec = planned.spec
        entry = [
            spec.schema.name, planned.backend, planned.inputs, sorted(planned.arguments.items()), planned.outputs, spec.seed,
            {name: _text(value) for name, value in sorted(spec.constants.items())}, data.get(spec.name),
        ]  # fmt: skip
        made[f"operator {spec.name}"] = f"{spec.schema.name} {_digest(json.dumps(entry).encode())}"
    made["outputs"] = str(plan.outputs)
    made["cut"] = ",".join(options.cut_names() or ["the default"])
    return made if len(made) <= _LISTED else {"operators": _digest(json.dumps(made).encode())}


_LISTED = 500
"""Number of operators that are described one by one. A message has room for this number."""


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def _text(value: Any) -> Any:
    """A constant argument as JSON data. Equal values give equal data in all processes."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return repr(value)
    if isinstance(value, bytes):
        return _digest(value)
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
        return [array.dtype.str, list(array.shape), repr(array.tolist()) if array.dtype.hasobject else _digest(array.tobytes())]
    if isinstance(value, Enum):
        return str(value)
    if isinstance(value, (list, tuple)):
        return [_text(item) for item in value]
    if isinstance(value, dict):
        return [[str(name), _text(item)] for name, item in sorted(value.items(), key=lambda item: str(item[0]))]
    code = getattr(value, "__code__", None)
    if code is not None:
        return [value.__qualname__, _code(code)]
    return type(value).__qualname__  # not its module, which is __main__ in one process and an import in another one


def _code(code: CodeType) -> str:
    """The bytecode of a function, and of the functions inside it."""
    inner = "".join(_code(item) for item in code.co_consts if isinstance(item, CodeType))
    values = [item for item in code.co_consts if item is None or isinstance(item, (bool, int, float, str, bytes))]
    return _digest(code.co_code + repr((code.co_names, values)).encode() + inner.encode())


@functools.cache
def _packages() -> dict[str, str]:
    found = {"asyncdali": __version__, "python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


@functools.cache
def _processor() -> dict[str, str]:
    """The target of kernels. Other instructions, or another C library, give other bits from the same source.

    Machines with the same level of x86-64 (``compiled/target.py``) have the same target, and the same bits. Kernels that came with the
    package may be of another compiler than those that a machine makes, so they are described, too.
    """
    from ...compiled.shipped import described

    return {**described(), "C library": " ".join(platform.libc_ver())}
