"""Measures a data loader, or replays its batches as if loading cost nothing.

May import what `plugin` may.
"""

from __future__ import annotations

from .loader import LoaderEvaluator

__all__ = ["LoaderEvaluator"]
