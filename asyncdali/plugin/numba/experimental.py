"""NumbaFunction. The operator class is in ``asyncdali.ops.experimental``."""

from __future__ import annotations

from ... import ops as _ops

NumbaFunction = _ops.experimental.NumbaFunction

__all__ = ["NumbaFunction"]
