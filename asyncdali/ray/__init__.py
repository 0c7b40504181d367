"""Engines as Ray actors (docs/fleet.md). Ray places, starts, restarts and scales them; batches are sent over direct sockets.

``fleet`` and ``loader`` are the trainer's side. ``manager`` is one Ray actor that owns the engines, ``engine`` is an engine.
Ray's object store carries the program and counters, never batches.

May import ``fleet`` and ``fn``. Nothing imports this room.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .._extras import need

need("ray", "ray", "asyncdali.ray")

if TYPE_CHECKING:
    from .fleet import Fleet as Fleet
    from .loader import FleetLoader as FleetLoader
    from .loader import loader as loader

_NAMES = {"Fleet": ".fleet", "FleetLoader": ".loader", "loader": ".loader"}
"""Imported at their first use, because the manager and the engines need neither."""

__all__ = [*_NAMES]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_NAMES[name], __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_NAMES})
