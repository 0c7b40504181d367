"""Registries by name: operators, and classes of objects that stored pipelines may contain."""

from __future__ import annotations

import copyreg
import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

from .modules import OPERATORS
from .schema import Schema

if TYPE_CHECKING:
    from .base import Operator


class Registry(MutableMapping[str, "type[Operator]"]):
    """Public operator name -> class. A declared operator is imported when it is looked up; its name is known before.

    Importing all operators takes 0.1 s of a processor, and a pipeline uses few of them. `declared`: operator name -> module in the package.
    """

    def __init__(self, declared: Mapping[str, str]):
        self._declared = declared
        self._loaded: dict[str, type[Operator]] = {}

    def __getitem__(self, name: str) -> type[Operator]:
        if name not in self._loaded and name in self._declared:
            importlib.import_module(self.home(name))
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in self._declared or name in self._loaded

    def __iter__(self) -> Iterator[str]:
        return iter({**self._declared, **self._loaded})

    def __len__(self) -> int:
        return len({**self._declared, **self._loaded})

    def __setitem__(self, name: str, kind: type[Operator]) -> None:
        if name in self._loaded:
            other = self._loaded[name].__module__
        elif name in self._declared and not kind.__module__.startswith("asyncdali."):
            other = self.home(name)
        else:
            other = kind.__module__
        if other != kind.__module__:
            raise ValueError(f"operator {name} is declared twice: {other} and {kind.__module__}")
        self._loaded[name] = kind

    def __delitem__(self, name: str) -> None:
        del self._loaded[name]

    def home(self, name: str) -> str:
        """The module of a declared operator."""
        return f"asyncdali.{self._declared[name]}"


REGISTRY = Registry(OPERATORS)

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
    cls.__doc__ = cls.__doc__ or inspect.cleandoc(cls.schema.doc)
    REGISTRY[cls.schema.name] = cls
    return cls


def schema_named(name: str) -> Schema:
    """The declaration of an operator."""
    return REGISTRY[name].schema


def _reduced(schema: Schema) -> tuple[Callable[[str], Schema], tuple[str]]:
    return schema_named, (schema.name,)


copyreg.pickle(Schema, _reduced)  # declarations contain functions, so a schema is pickled as its name
