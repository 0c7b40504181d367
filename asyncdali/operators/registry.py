"""Registries by name: operators, and classes of objects that stored pipelines may contain."""

from __future__ import annotations

import copyreg
import inspect
from typing import TYPE_CHECKING, Any

from .schema import Schema

if TYPE_CHECKING:
    from .base import Operator

REGISTRY: dict[str, type[Operator]] = {}
"""Public operator name -> class."""


STORABLE: dict[str, Any] = {}
"""Class name -> class of objects, besides numbers, text and arrays, that stored pipelines may contain; see :func:`storable`."""


def storable(cls: Any) -> Any:
    """Class decorator: arguments of operators may be objects of this class, and pipelines with such objects can be stored.

    ``stored()`` returns a dict of storable values. The class method ``restored(dict)`` checks the dict and makes the object again.
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


def schema_named(name: str) -> Schema:
    """The declaration of an operator."""
    return REGISTRY[name].schema


def _reduced(schema: Schema) -> tuple[Any, ...]:
    return schema_named, (schema.name,)


copyreg.pickle(Schema, _reduced)  # declarations contain functions, so a schema is pickled as its name
