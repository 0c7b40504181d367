"""The experimental part of the PyTorch plugin."""

from __future__ import annotations

from . import proxy

__all__ = ["proxy"]
