"""Tools that measure a data loader, or replay its batches from memory.

May import the same rooms as `plugin`.
"""

from __future__ import annotations

from .loader import LoaderEvaluator

__all__ = ["LoaderEvaluator"]
