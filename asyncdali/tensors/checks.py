"""Checks of users' arguments about tensors: layouts, types, shapes."""

from __future__ import annotations

import operator
from typing import Any

from ..batch import storage_dtype
from ..types import DALIDataType, TensorLayout
from ..types.conversions import STORAGE
from ..types.enums import ENUMERATIONS


def checked_layout(layout: object, ndim: int, what: str) -> str:
    """Axis names as a string, "" for None; ValueError when there are not `ndim`."""
    if layout is None:
        return ""
    if not isinstance(layout, (str, TensorLayout)):
        raise TypeError(f"a layout is a string with one character per dimension or None, got {type(layout).__name__}")
    axes = str(layout)
    if axes and len(axes) != ndim:
        raise ValueError(
            "A non-empty layout must have the same number of dimensions as the number of dimensions of the "
            f"{what}.\nGot: {len(axes)} ({axes})\nExpected: {ndim}."
        )
    return axes


def checked_reinterpretation(dtype: object, current: DALIDataType) -> DALIDataType:
    """The target type of `reinterpret` for elements of type `current`. It must have the same size."""
    if not isinstance(dtype, DALIDataType):
        raise TypeError(f"expected a DALIDataType, got {type(dtype).__name__}")
    if dtype not in STORAGE or storage_dtype(dtype).itemsize != storage_dtype(current).itemsize:
        raise RuntimeError(f"Cannot reinterpret {current.name} as {dtype.name}: the element size must not change.")
    return dtype


def check_readable(dtype: DALIDataType) -> None:
    """Raise TypeError for enumerations, which are not numbers for numpy."""
    if dtype in ENUMERATIONS:
        raise TypeError(
            f"Elements of the enumeration {dtype.name} cannot be read as numbers: convert them to an integral type with `fn.cast` first."
        )


def checked_extents(shape: Any) -> tuple[int, ...]:
    """A shape that was given as a sequence of integers."""
    if isinstance(shape, (str, int)):
        raise TypeError(f"expected a sequence of extents, got {shape!r}")
    return tuple(operator.index(extent) for extent in shape)
