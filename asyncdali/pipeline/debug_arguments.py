"""Debug mode: whether a call of an operator has the arguments of the first iteration."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..graph.node import OperatorInstance


class _Data:
    """Represents an argument that was given as a node."""

    def __repr__(self) -> str:
        return "a DataNode"


_DATA = _Data()


def arguments_of(instance: OperatorInstance) -> dict[str, Any]:
    return {**instance.constants, **dict.fromkeys(instance.argument_inputs, _DATA)}


def _code(value: object) -> Any:
    """The definition of a callable of the user; None for other values.

    A function (also compiled by Numba) or method has its code, a partial the code of its callable, another object the code of its class.
    """
    if isinstance(value, functools.partial):
        return _code(value.func) or value.func
    found = getattr(getattr(value, "py_func", value), "__code__", None)
    if found is None and callable(value) and not isinstance(value, type):
        found = getattr(type(value).__call__, "__code__", None)
    return found


def are_interchangeable(old: object, new: object) -> bool:
    """Whether equal arguments may replace each other: not functions that refer to different objects."""
    if old is new or _code(new) is None:
        return True
    return _refers_to(old) == _refers_to(new)


def _refers_to(function: object) -> list[int]:
    """Identities of a function's parts besides its code: `self`, closure, defaults."""
    if isinstance(function, functools.partial):
        return [*_refers_to(function.func), *map(id, (*function.args, *function.keywords, *function.keywords.values()))]
    inner = getattr(function, "py_func", function)
    if not hasattr(inner, "__code__"):
        return [id(inner)]
    closure, defaults, named = (getattr(inner, f"__{name}__", None) for name in ("closure", "defaults", "kwdefaults"))
    things = [getattr(inner, "__self__", None), *map(_contents, closure or ()), *(defaults or ()), *(named or {}).values()]
    return list(map(id, things))


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # an empty cell
        return None


def is_equal(old: Any, new: Any) -> bool:
    """Whether an argument has the same value. Functions made by the same `def` or `lambda` are equal."""
    if old is new:
        return True
    if _code(old) is not None:
        return _code(old) is _code(new)
    if isinstance(old, np.ndarray) or isinstance(new, np.ndarray):
        return type(old) is type(new) and old.dtype == new.dtype and np.array_equal(old, new)
    return type(old) is type(new) and (bool(old == new) or repr(old) == repr(new))
