"""Names of element types in numpy, torch, jax and Python."""

from __future__ import annotations

from typing import Any

import numpy as np

from .enums import ENUMERATIONS, DALIDataType

NUMPY_CLASSES = {
    DALIDataType.UINT8: np.uint8,
    DALIDataType.UINT16: np.uint16,
    DALIDataType.UINT32: np.uint32,
    DALIDataType.UINT64: np.uint64,
    DALIDataType.INT8: np.int8,
    DALIDataType.INT16: np.int16,
    DALIDataType.INT32: np.int32,
    DALIDataType.INT64: np.int64,
    DALIDataType.FLOAT16: np.float16,
    DALIDataType.FLOAT: np.float32,
    DALIDataType.FLOAT64: np.float64,
    DALIDataType.BOOL: np.bool_,
}

STORAGE: dict[DALIDataType, np.dtype] = {
    **{kind: np.dtype(cls) for kind, cls in NUMPY_CLASSES.items()},
    **dict.fromkeys(ENUMERATIONS, np.dtype(np.int32)),
}
"""The dtype that stores an element. Enumerations are stored as 32-bit integers."""

FROM_DTYPE: dict[Any, DALIDataType] = {np.dtype(cls): kind for kind, cls in NUMPY_CLASSES.items()}
# C has several names for one size, and numpy has a class for each.
_CONCRETE = {cls: np.dtype(cls) for cls in (*NUMPY_CLASSES.values(), np.intc, np.uintc, np.longlong, np.ulonglong)}

# Names in numpy and torch. "byte" is torch's unsigned type, and "float" has 32 bits, as in DALI.
_FROM_NAME: dict[str | None, DALIDataType] = {
    **{np.dtype(cls).name: kind for kind, cls in NUMPY_CLASSES.items()},
    "bool_": DALIDataType.BOOL,
    "byte": DALIDataType.UINT8,
    "ubyte": DALIDataType.UINT8,
    "ushort": DALIDataType.UINT16,
    "ulong": DALIDataType.UINT64,
    "short": DALIDataType.INT16,
    "long": DALIDataType.INT64,
    "half": DALIDataType.FLOAT16,
    "float": DALIDataType.FLOAT,
    "double": DALIDataType.FLOAT64,
}


def to_numpy_type(dali_type: DALIDataType) -> type:
    """The numpy scalar class of `dali_type`, a numeric type or BOOL. KeyError for other types (enumerations, strings)."""
    return NUMPY_CLASSES[dali_type]


def to_dali_type(framework_type: object) -> DALIDataType:
    """The DALIDataType of `framework_type`, a type of another library.

    Accepts numpy scalar classes and dtypes (native byte order), torch and jax dtypes, their names, and the builtins ``float``
    (FLOAT, 32 bits) and ``bool``. Raises TypeError for everything else, which includes ``int`` (no one size), complex, strings,
    objects and foreign byte order.
    """
    if framework_type is float:
        return DALIDataType.FLOAT
    if framework_type is bool:
        return DALIDataType.BOOL
    if isinstance(framework_type, (np.dtype, type)):
        kind = FROM_DTYPE.get(_dtype_of(framework_type))
    else:
        kind = _FROM_NAME.get(_type_name(framework_type))
    if kind is None:
        raise TypeError(f"'{framework_type}' could not be converted into any known DALIDataType.")
    return kind


def _dtype_of(framework_type: np.dtype | type) -> np.dtype | None:
    if isinstance(framework_type, np.dtype):
        return framework_type
    if issubclass(framework_type, np.generic):
        # np.dtype(cls) would turn abstract classes (np.floating) into float64.
        return _CONCRETE.get(framework_type)
    dtype = getattr(framework_type, "dtype", None)  # jax.numpy.float32 is a class with a dtype
    return dtype if isinstance(dtype, np.dtype) else None


def _type_name(framework_type: object) -> str | None:
    if isinstance(framework_type, str):
        return framework_type.removeprefix("torch.")
    if type(framework_type).__name__ == "dtype" and str(framework_type).startswith("torch."):
        return str(framework_type).removeprefix("torch.")
    if type(framework_type).__name__ == "DType":  # tensorflow
        return getattr(framework_type, "name", None)
    return None


def given_dtype(dtype: object) -> DALIDataType:
    """The DALIDataType of a `dtype` argument: a DALIDataType, its number, or an argument of `to_dali_type`."""
    if isinstance(dtype, int) and not isinstance(dtype, bool):
        try:
            return DALIDataType(dtype)
        except ValueError:
            raise TypeError(f"{dtype} is not the number of a DALIDataType") from None
    return to_dali_type(dtype)
