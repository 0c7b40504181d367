"""Tables of what is known by name: operators, and the classes of objects that stored pipelines may hold."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .base import Operator

REGISTRY: dict[str, type[Operator]] = {}
"""Public operator name -> class."""


STORABLE: dict[str, Any] = {}
"""Class name -> class of the objects, besides numbers, text and arrays, that stored pipelines may hold; see :func:`storable`."""


def storable(cls: Any) -> Any:
    """Class decorator: arguments of operators may hold these objects, and pipelines that have them can be stored.

    ``stored()`` gives a dict of what can be stored, and the class method ``restored(dict)`` makes the object of it, checking all.
    """
    STORABLE[cls.__name__] = cls
    return cls


def register(cls: type[Operator]) -> type[Operator]:
    """Class decorator: enter an operator in the registry. A class without a docstring gets the schema's text."""
    name = cls.schema.name
    cls.__doc__ = cls.__doc__ or inspect.cleandoc(cls.schema.doc)
    if name in REGISTRY and REGISTRY[name].__module__ != cls.__module__:
        raise ValueError(f"operator {name} is declared twice: {REGISTRY[name].__module__} and {cls.__module__}")
    REGISTRY[name] = cls
    return cls
