"""Optional dependencies: errors name the extra that installs a missing one."""

from __future__ import annotations

import importlib.util
import sys


def need(module: str, extra: str, what: str) -> None:
    """ModuleNotFoundError that names the extra of asyncdali with `module`. `what` needs the module."""
    if sys.modules.get(module) is not None or importlib.util.find_spec(module) is not None:
        return
    raise ModuleNotFoundError(f"{what} needs {module}, which is not installed: pip install asyncdali[{extra}]", name=module)
