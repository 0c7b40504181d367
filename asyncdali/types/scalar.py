"""One literal with a chosen type."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from .conversions import NUMPY_CLASSES, given_dtype, to_dali_type
from .enums import ENUM_CLASSES, DALIDataType

_BOOL_KINDS = (DALIDataType.BOOL,)
_INT_KINDS = (
    DALIDataType.INT8, DALIDataType.INT16, DALIDataType.INT32, DALIDataType.INT64,
    DALIDataType.UINT8, DALIDataType.UINT16, DALIDataType.UINT32, DALIDataType.UINT64,
)  # fmt: skip
_FLOAT_KINDS = (DALIDataType.FLOAT16, DALIDataType.FLOAT, DALIDataType.FLOAT64)


class ScalarConstant:
    """A literal with a chosen type, for arithmetic with nodes, operator arguments and pipeline outputs.

    `value` is a bool, int or float, or a numpy scalar or 0-d array (whose dtype it then takes); `dtype` a numeric or BOOL type.
    Conversions truncate like Python's ``int()`` and do not wrap or saturate: that happens when the constant enters the graph.
    Raises TypeError for other values and types.
    """

    __slots__ = ("dtype", "shape", "value")

    def __init__(self, value: object, dtype: DALIDataType | None = None):
        self.shape: list[int] = []
        plain, kind = scalar_value(value)
        self.dtype: DALIDataType = kind if dtype is None else _scalar_dtype(dtype)
        self.value: bool | float = _python_scalar(plain, self.dtype)

    def bool(self) -> ScalarConstant:
        """The same value as BOOL."""
        return ScalarConstant(self.value, DALIDataType.BOOL)

    def int8(self) -> ScalarConstant:
        """The same value as INT8."""
        return ScalarConstant(self.value, DALIDataType.INT8)

    def int16(self) -> ScalarConstant:
        """The same value as INT16."""
        return ScalarConstant(self.value, DALIDataType.INT16)

    def int32(self) -> ScalarConstant:
        """The same value as INT32."""
        return ScalarConstant(self.value, DALIDataType.INT32)

    def int64(self) -> ScalarConstant:
        """The same value as INT64."""
        return ScalarConstant(self.value, DALIDataType.INT64)

    def uint8(self) -> ScalarConstant:
        """The same value as UINT8."""
        return ScalarConstant(self.value, DALIDataType.UINT8)

    def uint16(self) -> ScalarConstant:
        """The same value as UINT16."""
        return ScalarConstant(self.value, DALIDataType.UINT16)

    def uint32(self) -> ScalarConstant:
        """The same value as UINT32."""
        return ScalarConstant(self.value, DALIDataType.UINT32)

    def uint64(self) -> ScalarConstant:
        """The same value as UINT64."""
        return ScalarConstant(self.value, DALIDataType.UINT64)

    def float16(self) -> ScalarConstant:
        """The same value as FLOAT16."""
        return ScalarConstant(self.value, DALIDataType.FLOAT16)

    def float32(self) -> ScalarConstant:
        """The same value as FLOAT."""
        return ScalarConstant(self.value, DALIDataType.FLOAT)

    def float64(self) -> ScalarConstant:
        """The same value as FLOAT64."""
        return ScalarConstant(self.value, DALIDataType.FLOAT64)

    def __eq__(self, other: object) -> Any:
        # NotImplemented lets a node on the other side build its comparison.
        if isinstance(other, ScalarConstant):
            return self.value == other.value and self.dtype == other.dtype
        return NotImplemented

    def __hash__(self) -> int:
        return hash((self.value, self.dtype))

    def __bool__(self) -> builtins.bool:
        self._require(_BOOL_KINDS + _INT_KINDS, "one of bool or int types", "bool")
        return builtins.bool(self.value)

    def __int__(self) -> int:
        self._require(_BOOL_KINDS + _INT_KINDS, "one of bool or int types", "int")
        return int(self.value)

    def __float__(self) -> float:
        self._require(_FLOAT_KINDS, "one of the float types", "float")
        return float(self.value)

    def _require(self, kinds: tuple[DALIDataType, ...], described: str, builtin: str) -> None:
        if self.dtype not in kinds:
            names = ", ".join(kind.name for kind in kinds)
            raise TypeError(
                f"DALI ScalarConstant of type {self.dtype.name} must be converted to {described} ({names}) "
                f"explicitly before casting to builtin `{builtin}`."
            )

    def __str__(self) -> str:
        return f"{self.value}:{self.dtype}"

    def __repr__(self) -> str:
        return str(self.value)


def scalar_value(value: object) -> tuple[bool | float, DALIDataType]:
    """A Python scalar and its kind. TypeError for an object that is not one value."""
    if isinstance(value, ScalarConstant):
        return value.value, value.dtype
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        return value.item(), to_dali_type(value.dtype)
    if isinstance(value, (bool, int, float)) and not isinstance(value, ENUM_CLASSES):
        return value, _python_kind(value)
    raise TypeError(f"Expected scalar value of type 'bool', 'int' or 'float', got {type(value)}.")


def _python_kind(value: bool | float) -> DALIDataType:
    if isinstance(value, bool):
        return DALIDataType.BOOL
    return DALIDataType.INT32 if isinstance(value, int) else DALIDataType.FLOAT


def _python_scalar(value: bool | float, kind: DALIDataType) -> bool | float:
    if kind in _BOOL_KINDS:
        return bool(value)
    return int(value) if kind in _INT_KINDS else float(value)


def _scalar_dtype(dtype: object) -> DALIDataType:
    kind = given_dtype(dtype)
    if kind not in NUMPY_CLASSES:
        names = ", ".join(each.name for each in NUMPY_CLASSES)
        raise TypeError(f"DALI ScalarConstant can only hold one of: [{names}] types, got {dtype}.")
    return kind
