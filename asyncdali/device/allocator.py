"""Returns the C allocator's free pages to the system."""

from __future__ import annotations

import ctypes


def trim() -> bool:
    """Give pages that the C allocator holds but does not use back to the system (glibc only). Returns whether there were any."""
    try:
        return bool(ctypes.CDLL(None).malloc_trim(0))
    except (AttributeError, OSError):
        return False
