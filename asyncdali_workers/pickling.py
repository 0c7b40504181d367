"""Pickles sources for workers that are not forked from this process. Functions that a worker could not import go by value."""

from __future__ import annotations

import io
import pickle
import sys
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from .exceptions import PROGRAM

_Function = TypeVar("_Function", bound=Callable[..., Any])

_by_value: weakref.WeakSet[Any] = weakref.WeakSet()


def pickle_by_value(function: _Function) -> _Function:
    """Decorator: send this function to workers by its code, even if they could import it by name.

    Lambdas, nested functions, and everything defined in ``__main__`` or a notebook are sent by value anyway.
    """
    if not isinstance(function, types.FunctionType):
        raise TypeError(f"only functions can be pickled by value, not {type(function).__name__}")
    _by_value.add(function)
    return function


def dumps_by_value(value: object) -> bytes:
    """The default pickler: cloudpickle, with the functions that `pickle_by_value` marked, and the programs of commands by value."""
    import cloudpickle

    for name, module in list(sys.modules.items()):
        if name.startswith(PROGRAM):  # a command loaded the file under this name, which no other process can import
            cloudpickle.register_pickle_by_value(module)

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle has no types
        def reducer_override(self, obj: object) -> Any:
            if isinstance(obj, types.FunctionType) and obj in _by_value:
                return self._dynamic_function_reduce(obj)
            return super().reducer_override(obj)

    file = io.BytesIO()
    Pickler(file, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
    return file.getvalue()


class SourcePickler:
    """Functions that pickle callbacks here and unpickle them in a worker."""

    def __init__(self, asked: object):
        self.custom = asked is not None
        self._object: Any = None
        self._dumps_arguments: dict[str, Any] = {}
        self._loads_arguments: dict[str, Any] = {}
        if self.custom:
            self._take(asked)

    def _take(self, asked: Any) -> None:
        parts = list(asked) if isinstance(asked, (tuple, list)) else [asked]
        if not 1 <= len(parts) <= 3 or not all(callable(getattr(parts[0], name, None)) for name in ("dumps", "loads")):
            raise ValueError(
                f"a pickler is a module or object with dumps and loads, or a tuple (module, dumps kwargs, loads kwargs), not {asked!r}"
            )
        self._object = parts[0]
        self._dumps_arguments = dict(parts[1] or {}) if len(parts) > 1 else {}
        self._loads_arguments = dict(parts[2] or {}) if len(parts) > 2 else {}

    def dumps(self, value: object) -> bytes:
        return self._object.dumps(value, **self._dumps_arguments) if self.custom else dumps_by_value(value)

    def loads(self, data: bytes) -> Any:
        return self._object.loads(data, **self._loads_arguments) if self.custom else pickle.loads(data)


def dumps_source(value: object, name: str, pickler: SourcePickler) -> bytes:
    """Pickle a callback. If that fails, the error names the attribute that cannot be pickled."""
    try:
        return pickler.dumps(value)
    except Exception as error:
        path, reason = _culprit(value, name, pickler, error)
        message = f"{path}: {reason} (a source is sent to workers that are not forked, so all it holds must be picklable)"
        kind = type(error) if type(error) in (TypeError, AttributeError, ValueError, pickle.PicklingError) else pickle.PicklingError
        raise kind(message) from error


def _culprit(value: object, name: str, pickler: SourcePickler, error: Exception) -> tuple[str, Exception]:
    """The innermost part of `value` that cannot be pickled."""
    seen = {id(value)}
    found = True
    while found:
        found = False
        for step, part in _parts(value):
            if id(part) in seen:
                continue
            seen.add(id(part))
            try:
                pickler.dumps(part)
            except Exception as inner:
                value, name, error, found = part, name + step, inner, True
                break
    return name, error


def _parts(value: object) -> Iterator[tuple[str, object]]:
    """The parts of an object: (name in an expression, part)."""
    if isinstance(value, types.MethodType):
        yield ".__self__", value.__self__
        return
    if isinstance(value, types.FunctionType):
        yield from _parts_of_function(value)
    if isinstance(value, (list, tuple)):
        yield from ((f"[{index}]", part) for index, part in enumerate(value))
    elif isinstance(value, dict):
        yield from ((f"[{key!r}]", part) for key, part in value.items())
    for name in ("func", "args", "keywords"):
        if hasattr(value, name) and type(value).__name__ == "partial":
            yield f".{name}", getattr(value, name)
    yield from ((f".{name}", part) for name, part in getattr(value, "__dict__", {}).items())
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in [slots] if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                yield f".{name}", getattr(value, name)


def _parts_of_function(function: types.FunctionType) -> Iterator[tuple[str, object]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        try:
            yield f" (its variable {name})", cell.cell_contents
        except ValueError:
            pass  # not assigned yet
    for name in function.__code__.co_names:
        if name in function.__globals__ and not isinstance(function.__globals__[name], types.ModuleType):
            yield f" (global {name})", function.__globals__[name]
    for default in function.__defaults__ or ():
        yield " (a default)", default
