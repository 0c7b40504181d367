"""Measures a data loader, or replays its batches as if loading cost nothing."""

from __future__ import annotations

from .loader import LoaderEvaluator

__all__ = ["LoaderEvaluator"]
