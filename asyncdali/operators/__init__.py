"""Operators: one module per operator or close family, with schema, shape rule and kernels together.

The modules of this folder are the contract that all operators follow. Each subfolder is a family of operators.

There is one module per operator, except for operators with one shape rule and one plan. tests/unit/test_house.py reads this list:

    one rule, several functions           audio/spectrum.py, filters/rectangles.py, random/noise.py, statistics/reductions.py,
                                          transforms/transforms.py
    one decoder or reader, several ways   decode/decoders.py, video/video.py
    to choose the part
    two names, or two halves of one       batches/conditional.py, constants/constant.py, python/python_function.py, resize/resize.py
    construct

May import `codecs`, `sampling`, `compiled`, `batch`, `types`, `errors`, `device.launch`; never the graph, the runtime or a reader.
"""

from __future__ import annotations

import importlib

from . import modules
from .base import REGISTRY, Operator, Schema


def load_registry() -> dict[str, type[Operator]]:
    """Import all declarations (cheap: no kernels, no Numba) and return the registry."""
    for name in modules.MODULES:
        importlib.import_module(f"asyncdali.{name}")
    return REGISTRY


__all__ = ["REGISTRY", "Operator", "Schema", "load_registry"]

