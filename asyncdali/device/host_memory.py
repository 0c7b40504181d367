"""The C allocator's free pages."""

from __future__ import annotations

import ctypes


def trim() -> bool:
    """Give pages that the C allocator holds but does not use back to the system; whether there were any (glibc only)."""
    try:
        return bool(ctypes.CDLL(None).malloc_trim(0))
    except (AttributeError, OSError):
        return False
