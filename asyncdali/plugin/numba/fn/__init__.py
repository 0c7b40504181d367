"""Functions of the Numba plugin."""

from __future__ import annotations

from . import experimental as experimental
