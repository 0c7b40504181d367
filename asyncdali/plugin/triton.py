"""Decorator for the pipeline definition that a model repository serves."""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def autoserialize(dali_pipeline: Any) -> Any:
    """Mark a function made by ``pipeline_def``; written above that decorator. TypeError for anything else.

    Triton's DALI backend reads DALI's own files, which :func:`write_marked` writes.
    """
    if not getattr(dali_pipeline, "_is_pipeline_def", False):
        raise TypeError(
            "only functions decorated with @pipeline_def can be marked with @autoserialize; write @autoserialize above @pipeline_def"
        )
    dali_pipeline._is_autoserialize = True
    return dali_pipeline


def write_marked(module: types.ModuleType, filename: str) -> None:
    """Write the pipeline of the one marked function in a module, or in modules of its package that it imports, as DALI serializes it.

    RuntimeError unless exactly one function is marked, and for operators that DALI does not have.
    """
    found = list({id(function): function for function in _marked(module, module.__name__.partition(".")[0], set())}.values())
    if len(found) != 1:
        raise RuntimeError(f"Precisely one pipeline function must be marked with @autoserialize in {module.__name__}; found {len(found)}")
    Path(filename).write_bytes(found[0]().serialize(format="dali"))


def _marked(module: types.ModuleType, package: str, seen: set[str]) -> Iterator[Any]:
    seen.add(module.__name__)
    for _, value in inspect.getmembers(module):
        if getattr(value, "_is_autoserialize", False):
            yield value
        elif isinstance(value, types.ModuleType) and value.__name__.partition(".")[0] == package and value.__name__ not in seen:
            yield from _marked(value, package, seen)
