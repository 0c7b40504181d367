"""Conversion between element types with the rules of DALI's constants: rounded half away from zero, saturated."""

from __future__ import annotations

import numpy as np

from .conversions import STORAGE
from .enums import DALIDataType


def saturated(values: np.ndarray, kind: DALIDataType) -> np.ndarray:
    """`values` converted to the storage of `kind`, of the same shape."""
    target = STORAGE[kind]
    if values.dtype == target:
        return values
    if target == np.bool_:
        # Floats are rounded for BOOL too: 0.4 is false, NaN is not zero.
        truth: np.ndarray = ~(np.abs(values) < 0.5) if values.dtype.kind == "f" else values != 0
        return truth
    if target.kind == "f":
        with np.errstate(over="ignore"):
            # DALI converts to FLOAT16 through FLOAT, which decides how ties are rounded.
            return values.astype(np.float32).astype(target) if target.itemsize == 2 else values.astype(target)
    if values.dtype.kind == "f":
        return _rounded(values, target)
    if values.dtype.kind == "b":
        return values.astype(target)
    source, limits = np.iinfo(values.dtype), np.iinfo(target)
    clipped: np.ndarray = np.clip(values, max(source.min, limits.min), min(source.max, limits.max)).astype(target)
    return clipped


def _rounded(values: np.ndarray, target: np.dtype) -> np.ndarray:
    """Floats to integers, half away from zero, saturated. NaN as in DALI on x86: 0, or the sign bit for INT32 and 64-bit types."""
    limits = np.iinfo(target)
    values = values.astype(np.float64)
    whole = np.trunc(values)
    with np.errstate(invalid="ignore"):
        whole += np.copysign(np.abs(values - whole) >= 0.5, values)
    result = np.full(values.shape, 0, target)
    inside = (whole >= limits.min) & (whole < float(limits.max + 1))  # max + 1 is a power of two, exact as a float
    result[inside] = whole[inside].astype(target)
    result[whole < limits.min] = limits.min
    result[whole >= float(limits.max + 1)] = limits.max
    if target.itemsize == 8 or target == np.int32:
        result[np.isnan(values)] = 2**63 if target.kind == "u" else limits.min
    return result
