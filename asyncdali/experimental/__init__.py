"""DALI's experimental modules.

``asyncdali.fn.experimental`` and ``asyncdali.ops.experimental`` are something else: they have DALI's experimental operators.

    dynamic.py      DALI's place of dynamic mode, which is ``asyncdali.dynamic``
    torchvision.py  DALI's ``experimental.torchvision`` is not here: importing it says what to use instead

May import private modules, and `dynamic`.
"""

from __future__ import annotations

import importlib

from .._absent import refuser

ABSENT = {
    "torchvision": "use the operators of asyncdali.fn in a pipeline, and asyncdali.plugin.pytorch for tensors of torch",
}
"""Modules, and what to use instead."""

_refuse = refuser(__name__, ABSENT)


def __getattr__(name: str) -> object:
    if name == "dynamic":
        return importlib.import_module(".dynamic", __name__)
    return _refuse(name)


def refused(name: str) -> ImportError:
    """The error of importing a module of :data:`ABSENT`."""
    return ImportError(f"{__name__}.{name} is not in asyncdali: {ABSENT[name]}", name=f"{__name__}.{name}")
