"""Errors of an engine as data. The training process raises the error that the same iteration would have raised there."""

from __future__ import annotations

import builtins
import traceback
from typing import Any

from .. import errors
from ..errors import OperatorError, RaisedBefore, SampleError

_FIELDS = ("operator", "argument", "name", "iteration", "sample", "source_info", "line")
_DEEPEST = 8


class EngineError(RuntimeError):
    """An engine's error whose class the training process does not know. Its text begins with the name of the class."""


def packed(error: BaseException) -> dict[str, Any]:
    """An error as JSON data: class, text, fields, causes, and the traceback as text."""
    data = _one(error)
    data["fields"] = {name: getattr(error, name) for name in _FIELDS} if isinstance(error, OperatorError) else {}
    data["trace"] = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    causes: list[dict[str, Any]] = []
    cause = error.__cause__
    while cause is not None and len(causes) < _DEEPEST:
        causes.append(_one(cause))
        cause = cause.__cause__
    data["causes"] = causes
    return data


def _one(error: BaseException) -> dict[str, Any]:
    kind = type(error)
    known = kind.__name__ if kind.__module__ in ("builtins", errors.__name__) else ""
    return {"class": known, "name": kind.__qualname__, "text": str(error), "sample": getattr(error, "sample", None)}


def unpacked(data: dict[str, Any]) -> BaseException:
    """The error that :func:`packed` encoded."""
    error = _made(data)
    for name, value in data["fields"].items():
        if name in _FIELDS and isinstance(error, OperatorError):
            setattr(error, name, value)
    last = error
    for item in data["causes"]:
        last.__cause__ = _made(item)
        last = last.__cause__
    last.__cause__ = RaisedBefore(data["trace"])
    return error


def _made(data: dict[str, Any]) -> BaseException:
    """A class of asyncdali's or Python's errors, by name. Others become an EngineError: a received name never causes an import."""
    name, text = data["class"], data["text"]
    kind = getattr(errors, name, None) if name else None
    if kind is SampleError:
        return SampleError(data["sample"], text)
    if isinstance(kind, type) and issubclass(kind, OperatorError):
        return kind(text)
    kind = getattr(builtins, name, None) if name else None
    if isinstance(kind, type) and issubclass(kind, BaseException):
        try:
            return kind(text)
        except TypeError:  # for example UnicodeDecodeError, which takes five arguments
            return EngineError(f"{name}: {text}")
    return EngineError(f"{data['name']}: {text}")
