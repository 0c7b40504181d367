"""Engines as Ray actors (docs/fleet.md). Ray places, starts, restarts and scales them; batches are sent over direct sockets.

``fleet`` and ``loader`` are the trainer's side. ``manager`` is one Ray actor that owns the engines, ``engine`` is an engine.
Ray's object store carries the program and counters, never batches.

    engine.py   One engine, as a Ray actor
    fleet.py    The user's handle of a fleet
    loader.py   The loader of one rank, whose engines are those of a ``asyncdali.ray.Fleet``
    manager.py  The owner of a fleet's engines: one Ray actor
    prepare.py  Work of a process while it waits for others to start

May import ``fleet`` and ``fn``. Nothing imports this room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..messages.extras import need
from ..system.first_use import first_use

need("ray", "ray", "asyncdali.ray")

if TYPE_CHECKING:
    from .fleet import Fleet as Fleet
    from .loader import FleetLoader as FleetLoader
    from .loader import loader as loader

_NAMES = {"Fleet": ".fleet", "FleetLoader": ".loader", "loader": ".loader"}
"""Imported at their first use, because the manager and the engines need neither."""

__all__ = [*_NAMES]  # noqa: PLE0604
__getattr__, __dir__ = first_use(__name__, _NAMES)
