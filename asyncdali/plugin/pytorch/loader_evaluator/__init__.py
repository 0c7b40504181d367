"""Tools that measure a data loader, or replay its batches from memory.

    loader.py  LoaderEvaluator measures how long a loop waits for its loader, and how fast the loop would be without waiting

May import the same rooms as `plugin`.
"""

from __future__ import annotations

from .loader import LoaderEvaluator

__all__ = ["LoaderEvaluator"]
