"""Nested modules by path."""

from __future__ import annotations

import sys
import types
from collections.abc import Sequence

__all__ = ["get_submodule"]


def get_submodule(root: types.ModuleType | str, path: str | Sequence[str]) -> types.ModuleType:
    """The module at `path` ("a.b" or ["a", "b"]) below `root` (a module or the name of an imported one). Missing modules are made.

    KeyError for the name of a module that is not imported; RuntimeError if an attribute on the path is no module.
    """
    module = sys.modules[root] if isinstance(root, str) else root
    parts = path.split(".") if isinstance(path, str) else list(path)
    for part in filter(None, parts):
        name = f"{module.__name__}.{part}"
        child = getattr(module, part, None) or sys.modules.get(name)
        if child is None:
            child = sys.modules[name] = types.ModuleType(name)
        elif not isinstance(child, types.ModuleType):
            raise RuntimeError(f"{name} is a {type(child).__name__}; a module is expected")
        setattr(module, part, child)
        module = child
    return module
