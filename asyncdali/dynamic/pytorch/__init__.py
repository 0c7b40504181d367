"""Dynamic mode and PyTorch.

    nodes.py  Nodes for torchdata; it needs torch and torchdata

May import what `dynamic` may.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType


def __getattr__(name: str) -> ModuleType:
    if name != "nodes":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__])
    try:
        return importlib.import_module(f"{__name__}.nodes")
    except ImportError as error:
        raise AttributeError(
            f"{__name__}.nodes is there if torch and torchdata are: {error}", name=name, obj=sys.modules[__name__]
        ) from error
