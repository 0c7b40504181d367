"""Engines as Ray actors (docs/fleet.md). Ray places, starts, restarts and scales them; batches travel over direct sockets.

``fleet`` and ``loader`` are the trainer's side. ``manager`` is one Ray actor that owns the engines, ``engine`` is an engine.
Ray's object store carries the program and counters, never batches.

May import ``fleet``. Nothing imports this room.
"""

from .._extras import need

need("ray", "ray", "asyncdali.ray")

from .fleet import Fleet  # noqa: E402  the error above names the extra
from .loader import FleetLoader, loader  # noqa: E402

__all__ = ["Fleet", "FleetLoader", "loader"]
