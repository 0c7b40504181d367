"""Operators of other packages, found through entry points.

A package declares its operators in its metadata, by their names in ``fn``::

    [project.entry-points."asyncdali.operators"]
    "acme.threshold" = "acme_operators.threshold:Threshold"

The package is imported when a program uses ``fn.acme.threshold`` (or ``ops.acme.Threshold``), or when a stored pipeline with the operator
is restored. The metadata is read when a program uses a name that asyncdali does not know.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from ..messages.notices import warn
from .base import REGISTRY, Operator, register

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint  # importing it takes 15 ms of a processor

GROUP = "asyncdali.operators"
_NAME = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*")


class OperatorPackageError(RuntimeError, ImportError):
    """An operator of a package cannot be used. The message names the package and its entry point."""


@cache
def declared() -> dict[str, tuple[EntryPoint, ...]]:
    """The entry points of installed packages by operator name. Names of asyncdali's own operators are ignored, with a warning."""
    from importlib.metadata import entry_points

    found: dict[str, tuple[EntryPoint, ...]] = {}
    for point in entry_points(group=GROUP):
        if point.name in REGISTRY and REGISTRY[point.name].__module__.startswith("asyncdali."):
            warn(f"{_described(point)} is not used: asyncdali has an operator of that name", UserWarning)
        elif point not in found.get(point.name, ()):  # an editable install may be listed twice
            found[point.name] = (*found.get(point.name, ()), point)
    return found


def find(name: str) -> type[Operator] | None:
    """The operator with this name, of asyncdali or of a package, which is imported; None if there is none.

    OperatorPackageError if two packages declare the name, or if the package cannot be imported or declares no operator.
    """
    kind = REGISTRY.get(name)
    return kind if kind is not None or name not in declared() else _loaded(name, declared()[name])


def names() -> set[str]:
    """All operators that :func:`find` knows. None is imported."""
    return {*REGISTRY, *declared()}


def _described(point: EntryPoint) -> str:
    package = point.dist.name if point.dist is not None else "?"
    return f"the entry point {point.name!r} = {point.value!r} of the package {package!r}"


def _loaded(name: str, points: tuple[EntryPoint, ...]) -> type[Operator]:
    if len(points) > 1:
        raise OperatorPackageError(
            f"operator {name} is declared more than once: " + "; ".join(_described(point) for point in points) + ". Uninstall all but one"
        )
    (point,) = points
    if not _NAME.fullmatch(name):
        raise OperatorPackageError(f"{_described(point)}: an operator's name is lower-case words joined by dots, as in 'acme.threshold'")
    try:
        kind = point.load()
    except Exception as error:
        raise OperatorPackageError(f"operator {name}: {_described(point)} cannot be loaded: {type(error).__name__}: {error}") from error
    if not (isinstance(kind, type) and issubclass(kind, Operator)):
        wanted = "a class derived from asyncdali.extending.Operator"
        raise OperatorPackageError(f"operator {name}: {_described(point)} must name {wanted}, got {kind!r}")
    schema = getattr(kind, "schema", None)
    if schema is None or schema.name != name:
        given = "none" if schema is None else repr(schema.name)
        raise OperatorPackageError(f"operator {name}: {_described(point)} must have the schema of that name, got {given}")
    return register(kind)
