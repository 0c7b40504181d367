"""Addresses of arrays, for the tables that compiled steps read."""

from __future__ import annotations

from ctypes import c_int64
from typing import Any

import numpy as np

_DATA = object.__basicsize__
"""Where numpy's array object has the address of its elements: right behind its head (PyArrayObject_fields, which other libraries are
compiled against)."""
_word_at = c_int64.from_address
_array = np.ndarray
_probe = np.empty(1, np.int64)
_KNOWN = _word_at(id(_probe) + _DATA).value == _probe.ctypes.data


def address_of(array: Any) -> int:
    """Where a C-contiguous numpy array has its elements: ``array.ctypes.data`` in a sixth of the time. A batch asks a hundred times."""
    if type(array) is _array and _KNOWN:
        return _word_at(id(array) + _DATA).value
    return int(array.ctypes.data)
