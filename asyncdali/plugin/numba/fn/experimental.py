"""numba_function."""

from __future__ import annotations

from .... import fn as _fn

numba_function = _fn.experimental.numba_function

__all__ = ["numba_function"]
