"""Access to the memory of users' objects: numpy arrays, buffers, DLPack."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..types import DALIDataType, to_dali_type
from .dlpack import from_dlpack, is_capsule
from .tensor import Tensor


class UnsupportedTypeError(TypeError, RuntimeError):
    """Data whose element type has no DALIDataType. It is a TypeError; DALI reports some of these as RuntimeError."""


def _host_array(value: Any) -> np.ndarray:
    """A host array over the memory of a user's object. TypeError if it has none."""
    if isinstance(value, (np.ndarray, np.generic)):
        return np.asarray(value)
    if is_capsule(value):
        return from_dlpack(value)
    if hasattr(value, "__array_interface__"):
        return np.asarray(value)
    try:
        view = memoryview(value)
    except TypeError:
        if hasattr(value, "__dlpack__"):
            return from_dlpack(value)
        raise TypeError(
            f"expected a numpy array, a buffer or a DLPack capsule, got {type(value).__name__} (Python lists of numbers: use numpy.array)"
        ) from None
    return np.asarray(view)


def dense_array(value: object) -> tuple[np.ndarray, DALIDataType]:
    """A dense host array over a user's object (shared memory), and its element type."""
    if isinstance(value, Tensor):
        if value._device != "cpu":
            raise TypeError(f"expected data in CPU memory, got {type(value).__name__}: call as_cpu() first")
        return value._array, value._dtype
    array = _host_array(value)
    try:
        kind = to_dali_type(array.dtype)
    except TypeError:
        order = " in foreign byte order" if not array.dtype.isnative else ""
        raise UnsupportedTypeError(f"elements of numpy dtype {array.dtype}{order} are not supported: convert them first") from None
    if not array.flags.c_contiguous:
        raise RuntimeError(
            f"Strided data not supported: an array of shape {array.shape} has strides {array.strides}; use numpy.ascontiguousarray"
        )
    return array, kind
