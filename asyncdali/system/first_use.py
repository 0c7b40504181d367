"""Names of a package that are imported at their first use."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping


def first_use(package: str, modules: Mapping[str, str]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package. `modules`: the module of each name, relative to the package."""
    own = sys.modules[package].__dict__

    def getattribute(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = own[name] = getattr(importlib.import_module(modules[name], package), name)
        return value

    return getattribute, lambda: sorted({*own, *modules})
