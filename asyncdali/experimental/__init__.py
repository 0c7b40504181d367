"""DALI's experimental modules.

``asyncdali.fn.experimental`` and ``asyncdali.ops.experimental`` are something else: they have DALI's experimental operators.

    dynamic.py    DALI's place of dynamic mode, which is ``asyncdali.dynamic``
    torchvision/  torchvision's transforms, at DALI's place

May import `dynamic` and `vision`.
"""

from __future__ import annotations

import importlib

_MODULES = ("dynamic", "torchvision")


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
