"""Functions of the Numba plugin.

    experimental.py  numba_function

May import what `plugin` may.
"""

from __future__ import annotations

from . import experimental as experimental
from .experimental import numba_function

__all__ = ["experimental", "numba_function"]
