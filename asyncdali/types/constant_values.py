"""Values of constants: converts Python values, numpy and other arrays to one array and its type."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from .conversions import STORAGE, given_dtype, to_dali_type
from .enums import ENUM_CLASSES, ENUM_KINDS, DALIDataType
from .saturate import saturated
from .scalar import ScalarConstant, scalar_value


def constant_array(value: object, dtype: object = None, shape: object = None) -> tuple[np.ndarray, DALIDataType]:
    """The values and type of one sample of a constant.

    - value: bool, int, float or `ScalarConstant`; a flat list or tuple of bool, int and float; a `DALIDataType`, `DALIImageType` or
      `DALIInterpType` member or a list of one kind of them; a numpy array or scalar; a torch or other array with ``__array__``.
    - dtype: the type to convert to, rounding half away from zero and saturating. Without it, lists are FLOAT if they hold any float
      (or nothing), else INT32 if they hold any int (saturating), else BOOL; arrays keep their type, except FLOAT64 -> FLOAT,
      INT64 -> INT32 and UINT64 -> UINT32.
    - shape: an integer or integers. One value fills it; more must match its volume.

    Returns a C-contiguous array of the final shape, in the dtype that stores the type (int32 for enumerations), and the type.

    Raises TypeError for other values and types (nested lists: use an array), OverflowError for 64-bit arrays whose values need their
    64 bits while no `dtype` was given and for integers beyond 64 bits, ValueError for an array that cannot take `shape` and for
    negative extents, RuntimeError for a list whose length is not the volume of `shape`.
    """
    extents = constant_shape(shape)
    kind = None if dtype is None else _checked_dtype(dtype)
    array = array_value(value)
    if array is None:
        values, kind = _from_python(value, kind)
    else:
        values, kind = _from_array(array, kind)
    return _fit(values, extents, array is not None), kind


def array_value(value: object) -> np.ndarray | None:
    """The numpy array of an array-like value, None for Python values."""
    if isinstance(value, (np.ndarray, np.generic)):
        return np.asarray(value)
    if isinstance(value, (bool, int, float, list, tuple, ScalarConstant)):
        return None
    if type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "detach"):
        return np.asarray(value.detach().cpu().numpy())
    if type(value).__module__.partition(".")[0] == "cupy" and hasattr(value, "get"):
        return np.asarray(value.get())
    return np.asarray(value) if hasattr(value, "__array__") else None


def _from_array(array: np.ndarray, kind: DALIDataType | None) -> tuple[np.ndarray, DALIDataType]:
    own = to_dali_type(array.dtype)
    if kind is not None:
        return saturated(array, kind), kind
    if own is DALIDataType.FLOAT64:
        return saturated(array, DALIDataType.FLOAT), DALIDataType.FLOAT
    narrow = {DALIDataType.INT64: DALIDataType.INT32, DALIDataType.UINT64: DALIDataType.UINT32}.get(own)
    if narrow is None:
        return array, own
    limits = np.iinfo(STORAGE[narrow])
    for extreme in (array.min(), array.max()) if array.size else ():
        if not limits.min <= extreme <= limits.max:
            raise OverflowError(f"Integer {extreme} out of range for {limits.dtype}: pass dtype=types.{own.name} to keep 64 bits")
    return array.astype(limits.dtype), narrow


def _from_python(value: object, kind: DALIDataType | None) -> tuple[np.ndarray, DALIDataType]:
    if isinstance(value, (list, tuple)):
        items, scalar = list(value), False
    else:
        items, scalar = [value], True
    enum = _enum_class(items)
    if enum is not None:
        kind = ENUM_KINDS[enum] if kind is None else kind
        items = [int(item) for item in items]
    elif scalar:
        plain, own = scalar_value(value)
        items, kind = [plain], own if kind is None else kind
    else:
        items = [_list_item(item) for item in items]
    values = _python_values(items, kind)
    kind = _list_kind(items) if kind is None else kind
    values = saturated(values, kind)
    return values.reshape(()) if scalar else values, kind


def _enum_class(items: list[object]) -> type | None:
    """The enumeration of all items; None if there are no enumeration members. TypeError for a mixture."""
    classes = {type(item) if isinstance(item, ENUM_CLASSES) else None for item in items}
    if classes <= {None}:
        return None
    if len(classes) > 1:
        names = ", ".join(sorted({type(item).__name__ for item in items}))
        raise TypeError(f"Expected all elements of the input to be the same enum type, got {names}")
    return classes.pop()


def _list_item(item: object) -> bool | float:
    if isinstance(item, np.generic):
        item = item.item()
    if not isinstance(item, (bool, int, float)):
        hint = ": use a numpy array for more than one dimension" if isinstance(item, (list, tuple)) else ""
        raise TypeError(f"Unexpected type: {type(item)} in the values of a constant{hint}")
    return item


def _list_kind(items: list[object]) -> DALIDataType:
    if not items or any(isinstance(item, float) for item in items):
        return DALIDataType.FLOAT
    return DALIDataType.BOOL if all(isinstance(item, bool) for item in items) else DALIDataType.INT32


def _python_values(items: list[Any], kind: DALIDataType | None) -> np.ndarray:
    """The items as float64 if any is a float, else as 64-bit integers (or bools) that hold them exactly."""
    if not items or any(isinstance(item, float) for item in items):
        return np.array(items, np.float64)
    if all(isinstance(item, bool) for item in items):
        return np.array(items, np.bool_)
    low, high = min(items), max(items)
    if low < -(2**63) or high >= 2**64:
        raise OverflowError(f"Integer {low if low < -(2**63) else high} does not fit 64 bits")
    if high < 2**63:
        return np.array(items, np.int64)
    # Only UINT64 can hold the large values. Negative values are saturated to 0.
    limit = 2**64 - 1 if kind is DALIDataType.UINT64 or low >= 0 else 2**63 - 1
    floor = 0 if limit > 2**63 else -(2**63)
    return np.array([min(max(item, floor), limit) for item in items], np.uint64 if floor == 0 else np.int64)


def _fit(values: np.ndarray, extents: tuple[int, ...] | None, from_array: bool) -> np.ndarray:
    if extents is None or values.shape == extents:
        return np.ascontiguousarray(values).reshape(values.shape)
    volume = math.prod(extents)
    if values.ndim == 0 or (values.size == 1 and not from_array):
        return np.full(extents, values.reshape(-1)[0], values.dtype)
    if values.size != volume:
        error = ValueError if from_array else RuntimeError
        raise error(f"The number of values ({values.size}) does not match the shape specified: {extents} has {volume} elements")
    return np.ascontiguousarray(values).reshape(extents)


def _checked_dtype(dtype: object) -> DALIDataType:
    kind = given_dtype(dtype)
    if kind not in STORAGE:
        raise TypeError(f"a constant cannot have the type {kind}: numeric, BOOL, IMAGE_TYPE, DATA_TYPE and INTERP_TYPE are allowed")
    return kind


def constant_shape(shape: object) -> tuple[int, ...] | None:
    """The `shape` argument as a tuple; one number means one dimension."""
    if shape is None:
        return None
    if isinstance(shape, str):
        raise TypeError(f"shape must be an integer or a sequence of integers, got {shape!r}")
    extents = tuple(_extent(extent) for extent in (shape if np.iterable(shape) else (shape,)))
    if any(extent < 0 for extent in extents):
        raise ValueError(f"the extents of a constant's shape cannot be negative, got {extents}")
    return extents


def _extent(extent: Any) -> int:
    if isinstance(extent, float) and extent.is_integer():
        return int(extent)
    return operator.index(extent)
