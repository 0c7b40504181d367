"""Addresses of arrays, for the tables that compiled steps read."""

from __future__ import annotations

from ctypes import addressof, c_char
from typing import Any

_Anything = c_char * 0


def address_of(array: Any) -> int:
    """Where a C-contiguous numpy array has its elements: ``array.ctypes.data`` in a fifth of the time. A batch asks dozens of times."""
    try:
        return addressof(_Anything.from_buffer(array))
    except (TypeError, ValueError):  # a read-only array
        return int(array.ctypes.data)
