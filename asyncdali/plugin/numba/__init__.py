"""DALI's Numba plugin: the operator itself stands in ``asyncdali.fn.experimental`` and ``asyncdali.ops.experimental``."""

from __future__ import annotations

from . import fn as fn
from .experimental import NumbaFunction

__all__ = ["NumbaFunction", "fn"]
