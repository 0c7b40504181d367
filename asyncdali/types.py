"""Data types, enumerations and constants of the public API (the names and values of DALI's ``types`` module)."""

from __future__ import annotations

import builtins
import math
import operator
import sys
from enum import Enum, IntEnum
from typing import Any

import numpy as np


class _Kind(IntEnum):
    """Members compare equal to their numbers, print their name, and are all true (also number 0), as DALI's are."""

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"<{type(self).__name__}.{self.name}: {int(self)}>"

    def __str__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)


class DALIDataType(_Kind):
    """Element type of a tensor, and the kind of an operator argument."""

    NO_TYPE = -1
    UINT8 = 0
    UINT16 = 1
    UINT32 = 2
    UINT64 = 3
    INT8 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    FLOAT16 = 8
    FLOAT = 9
    FLOAT64 = 10
    BOOL = 11
    STRING = 12
    FEATURE = 17
    IMAGE_TYPE = 20
    DATA_TYPE = 21
    INTERP_TYPE = 22
    TENSOR_LAYOUT = 23
    PYTHON_OBJECT = 24


class DALIImageType(_Kind):
    """Colour space of a decoded image."""

    RGB = 0
    BGR = 1
    GRAY = 2
    YCbCr = 3
    ANY_DATA = 4


class DALIInterpType(_Kind):
    """Interpolation (resampling filter)."""

    INTERP_NN = 0
    INTERP_LINEAR = 1
    INTERP_CUBIC = 2
    INTERP_LANCZOS3 = 3
    INTERP_TRIANGULAR = 4
    INTERP_GAUSSIAN = 5


_NUMPY = {
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


# Members are names of the module too.
NO_TYPE = DALIDataType.NO_TYPE
UINT8 = DALIDataType.UINT8
UINT16 = DALIDataType.UINT16
UINT32 = DALIDataType.UINT32
UINT64 = DALIDataType.UINT64
INT8 = DALIDataType.INT8
INT16 = DALIDataType.INT16
INT32 = DALIDataType.INT32
INT64 = DALIDataType.INT64
FLOAT16 = DALIDataType.FLOAT16
FLOAT = DALIDataType.FLOAT
FLOAT64 = DALIDataType.FLOAT64
BOOL = DALIDataType.BOOL
STRING = DALIDataType.STRING
FEATURE = DALIDataType.FEATURE
IMAGE_TYPE = DALIDataType.IMAGE_TYPE
DATA_TYPE = DALIDataType.DATA_TYPE
INTERP_TYPE = DALIDataType.INTERP_TYPE
TENSOR_LAYOUT = DALIDataType.TENSOR_LAYOUT
PYTHON_OBJECT = DALIDataType.PYTHON_OBJECT
RGB = DALIImageType.RGB
BGR = DALIImageType.BGR
GRAY = DALIImageType.GRAY
YCbCr = DALIImageType.YCbCr
ANY_DATA = DALIImageType.ANY_DATA
INTERP_NN = DALIInterpType.INTERP_NN
INTERP_LINEAR = DALIInterpType.INTERP_LINEAR
INTERP_CUBIC = DALIInterpType.INTERP_CUBIC
INTERP_LANCZOS3 = DALIInterpType.INTERP_LANCZOS3
INTERP_TRIANGULAR = DALIInterpType.INTERP_TRIANGULAR
INTERP_GAUSSIAN = DALIInterpType.INTERP_GAUSSIAN

# Names of layouts in old programs.
NCHW = "CHW"
NHWC = "HWC"
NFCHW = "FCHW"
NFHWC = "FHWC"
SAME = ""

#: The `device_id` that DALI's backend gives a pipeline without a GPU.
CPU_ONLY_DEVICE_ID = -99999


class PipelineAPIType(Enum):
    """Which family of calls runs a pipeline: `run`, a framework iterator, or `schedule_run`/`outputs`."""

    BASIC = 0
    ITERATOR = 1
    SCHEDULED = 2


class StreamPolicy(Enum):
    """How operators are given CUDA streams (UNSPECIFIED behaves as PER_BACKEND)."""

    UNSPECIFIED = 0
    SINGLE = 1
    PER_BACKEND = 2
    PER_OPERATOR = 3


class OperatorConcurrency(Enum):
    """Which operators of one pipeline may run at the same time (UNSPECIFIED behaves as BACKEND)."""

    UNSPECIFIED = 0
    NONE = 1
    BACKEND = 2
    FULL = 3


class CUDAStream:
    """A CUDA stream made elsewhere, by its handle: `CUDAStream(torch.cuda.Stream().cuda_stream)`."""

    def __init__(self, ptr: int | None = None):
        self._ptr = ptr

    @property
    def ptr(self) -> int | None:
        """The ``cudaStream_t`` as an integer."""
        return self._ptr

    def __repr__(self) -> str:
        return f"CUDAStream({self._ptr!r})"


class TensorLayout:
    """Axis names of a tensor, one character each; compares equal to the plain string. Raises TypeError for anything but a str."""

    __slots__ = ("_axes",)

    def __init__(self, layout: str):
        if not isinstance(layout, (str, TensorLayout)):
            raise TypeError(f"a layout is a string with one character per dimension, got {type(layout).__name__}")
        self._axes = str(layout)

    def __str__(self) -> str:
        return self._axes

    def __repr__(self) -> str:
        return f"{__name__}.TensorLayout({self._axes!r})"

    def __len__(self) -> int:
        return len(self._axes)

    def __eq__(self, other: object) -> bool:
        return self._axes == str(other) if isinstance(other, (str, TensorLayout)) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._axes)


# ---------------------------------------------------------------------------------------------------------------------------
# numpy, torch and builtin types
# ---------------------------------------------------------------------------------------------------------------------------

_FROM_DTYPE: dict[Any, DALIDataType] = {np.dtype(cls): kind for kind, cls in _NUMPY.items()}
# C has several names for one size, and numpy a class for each.
_CONCRETE = {cls: np.dtype(cls) for cls in (*_NUMPY.values(), np.intc, np.uintc, np.longlong, np.ulonglong)}

# Names as numpy and torch spell them. "byte" is torch's unsigned one, and "float" the 32-bit one, as in DALI.
_FROM_NAME: dict[str | None, DALIDataType] = {
    **{np.dtype(cls).name: kind for kind, cls in _NUMPY.items()},
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
    """The numpy scalar class of a numeric or BOOL type; raises KeyError for the others (enumerations, strings)."""
    return _NUMPY[dali_type]


def to_dali_type(framework_type: Any) -> DALIDataType:
    """DALIDataType of a type of another library.

    Accepts numpy scalar classes and dtypes (native byte order), torch and jax dtypes, their names, and the builtins ``float``
    (FLOAT, 32 bits) and ``bool``. Raises TypeError for everything else, which includes ``int`` (no one size), complex, strings,
    objects and foreign byte order.
    """
    if framework_type is float:
        return DALIDataType.FLOAT
    if framework_type is bool:
        return DALIDataType.BOOL
    if isinstance(framework_type, (np.dtype, type)):
        kind = _FROM_DTYPE.get(_dtype_of(framework_type))
    else:
        kind = _FROM_NAME.get(_type_name(framework_type))
    if kind is None:
        raise TypeError(f"'{framework_type}' could not be converted into any known DALIDataType.")
    return kind


def _dtype_of(framework_type: np.dtype | type) -> np.dtype | None:
    if isinstance(framework_type, np.dtype):
        return framework_type
    if issubclass(framework_type, np.generic):
        # Not np.dtype(cls): that turns abstract classes (np.floating) into float64.
        return _CONCRETE.get(framework_type)
    dtype = getattr(framework_type, "dtype", None)  # jax.numpy.float32 is a class that knows its dtype
    return dtype if isinstance(dtype, np.dtype) else None


def _type_name(framework_type: Any) -> str | None:
    if isinstance(framework_type, str):
        return framework_type.removeprefix("torch.")
    if type(framework_type).__name__ == "dtype" and str(framework_type).startswith("torch."):
        return str(framework_type).removeprefix("torch.")
    if type(framework_type).__name__ == "DType":  # tensorflow
        return getattr(framework_type, "name", None)
    return None


# ---------------------------------------------------------------------------------------------------------------------------
# Constants
# ---------------------------------------------------------------------------------------------------------------------------

_BOOL_KINDS = (DALIDataType.BOOL,)
_INT_KINDS = (
    DALIDataType.INT8, DALIDataType.INT16, DALIDataType.INT32, DALIDataType.INT64,
    DALIDataType.UINT8, DALIDataType.UINT16, DALIDataType.UINT32, DALIDataType.UINT64,
)  # fmt: skip
_FLOAT_KINDS = (DALIDataType.FLOAT16, DALIDataType.FLOAT, DALIDataType.FLOAT64)
_ENUM_KINDS: dict[type, DALIDataType] = {
    DALIImageType: DALIDataType.IMAGE_TYPE,
    DALIDataType: DALIDataType.DATA_TYPE,
    DALIInterpType: DALIDataType.INTERP_TYPE,
}
_ENUM_CLASSES = tuple(_ENUM_KINDS)
_NODE_ARGUMENTS = frozenset({"name", "preserve", "bytes_per_sample_hint"})


class ScalarConstant:
    """A literal with a chosen type, for arithmetic with nodes, operator arguments and pipeline outputs.

    `value` is a bool, int or float, or a numpy scalar or 0-d array (whose dtype it then takes); `dtype` a numeric or BOOL type.
    Conversions truncate like Python's ``int()`` and do not wrap or saturate: that happens when the constant enters the graph.
    Raises TypeError for other values and types.
    """

    __slots__ = ("dtype", "shape", "value")

    def __init__(self, value: Any, dtype: DALIDataType | None = None):
        self.shape: list[int] = []
        plain, kind = _scalar(value)
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


def _scalar(value: Any) -> tuple[bool | float, DALIDataType]:
    """A Python scalar and its kind; TypeError for anything that is not one value."""
    if isinstance(value, ScalarConstant):
        return value.value, value.dtype
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        return value.item(), to_dali_type(value.dtype)
    if isinstance(value, (bool, int, float)) and not isinstance(value, _ENUM_CLASSES):
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


def _given_dtype(dtype: Any) -> DALIDataType:
    """A `dtype` argument: a DALIDataType, its number, or what `to_dali_type` knows."""
    if isinstance(dtype, int) and not isinstance(dtype, bool):
        try:
            return DALIDataType(dtype)
        except ValueError:
            raise TypeError(f"{dtype} is not the number of a DALIDataType") from None
    return to_dali_type(dtype)


def _scalar_dtype(dtype: Any) -> DALIDataType:
    kind = _given_dtype(dtype)
    if kind not in _NUMPY:
        names = ", ".join(each.name for each in _NUMPY)
        raise TypeError(f"DALI ScalarConstant can only hold one of: [{names}] types, got {dtype}.")
    return kind


def _constant_dtype(dtype: Any) -> DALIDataType:
    kind = _given_dtype(dtype)
    if kind not in _NUMPY and kind not in _ENUM_KINDS.values():
        raise TypeError(f"a constant cannot have the type {kind}: numeric, BOOL, IMAGE_TYPE, DATA_TYPE and INTERP_TYPE are allowed")
    return kind


def _constant_storage(kind: DALIDataType) -> np.dtype:
    return np.dtype(_NUMPY.get(kind, np.int32))


def _constant_shape(shape: Any) -> tuple[int, ...] | None:
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


def constant_array(value: Any, dtype: Any = None, shape: Any = None) -> tuple[np.ndarray, DALIDataType]:
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
    extents = _constant_shape(shape)
    kind = None if dtype is None else _constant_dtype(dtype)
    array = _array_value(value)
    if array is None:
        values, kind = _from_python(value, kind)
    else:
        values, kind = _from_array(array, kind)
    return _fit(values, extents, array is not None), kind


def _array_value(value: Any) -> np.ndarray | None:
    """The numpy array of an array-like value, None for Python values."""
    if isinstance(value, (np.ndarray, np.generic)):
        return np.asarray(value)
    if isinstance(value, (bool, int, float, list, tuple, ScalarConstant)):
        return None
    if type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "detach"):
        return value.detach().cpu().numpy()
    if type(value).__module__.partition(".")[0] == "cupy" and hasattr(value, "get"):
        return np.asarray(value.get())
    return np.asarray(value) if hasattr(value, "__array__") else None


def _from_array(array: np.ndarray, kind: DALIDataType | None) -> tuple[np.ndarray, DALIDataType]:
    own = to_dali_type(array.dtype)
    if kind is not None:
        return _saturated(array, kind), kind
    if own is DALIDataType.FLOAT64:
        return _saturated(array, DALIDataType.FLOAT), DALIDataType.FLOAT
    narrow = {DALIDataType.INT64: DALIDataType.INT32, DALIDataType.UINT64: DALIDataType.UINT32}.get(own)
    if narrow is None:
        return array, own
    limits = np.iinfo(_constant_storage(narrow))
    for extreme in (array.min(), array.max()) if array.size else ():
        if not limits.min <= extreme <= limits.max:
            raise OverflowError(f"Integer {extreme} out of range for {limits.dtype}: pass dtype=types.{own.name} to keep 64 bits")
    return array.astype(limits.dtype), narrow


def _from_python(value: Any, kind: DALIDataType | None) -> tuple[np.ndarray, DALIDataType]:
    if isinstance(value, (list, tuple)):
        items, scalar = list(value), False
    else:
        items, scalar = [value], True
    enum = _enum_class(items)
    if enum is not None:
        kind = _ENUM_KINDS[enum] if kind is None else kind
        items = [int(item) for item in items]
    elif scalar:
        plain, own = _scalar(value)
        items, kind = [plain], own if kind is None else kind
    else:
        items = [_list_item(item) for item in items]
    values = _python_values(items, kind)
    kind = _list_kind(items) if kind is None else kind
    values = _saturated(values, kind)
    return values.reshape(()) if scalar else values, kind


def _enum_class(items: list[Any]) -> type | None:
    """The one enumeration all items belong to, None if there are no enumeration members; TypeError for a mixture."""
    classes = {type(item) if isinstance(item, _ENUM_CLASSES) else None for item in items}
    if classes <= {None}:
        return None
    if len(classes) > 1:
        names = ", ".join(sorted({type(item).__name__ for item in items}))
        raise TypeError(f"Expected all elements of the input to be the same enum type, got {names}")
    return classes.pop()


def _list_item(item: Any) -> bool | float:
    if isinstance(item, np.generic):
        item = item.item()
    if not isinstance(item, (bool, int, float)):
        hint = ": use a numpy array for more than one dimension" if isinstance(item, (list, tuple)) else ""
        raise TypeError(f"Unexpected type: {type(item)} in the values of a constant{hint}")
    return item


def _list_kind(items: list[Any]) -> DALIDataType:
    if not items or any(isinstance(item, float) for item in items):
        return DALIDataType.FLOAT
    return DALIDataType.BOOL if all(isinstance(item, bool) for item in items) else DALIDataType.INT32


def _python_values(items: list[Any], kind: DALIDataType | None) -> np.ndarray:
    """The items as float64 if any is a float, else as the 64-bit integers (or bools) that hold them exactly."""
    if not items or any(isinstance(item, float) for item in items):
        return np.array(items, np.float64)
    if all(isinstance(item, bool) for item in items):
        return np.array(items, np.bool_)
    low, high = min(items), max(items)
    if low < -(2**63) or high >= 2**64:
        raise OverflowError(f"Integer {low if low < -(2**63) else high} does not fit 64 bits")
    if high < 2**63:
        return np.array(items, np.int64)
    # Only UINT64 can hold the large ones, and it saturates the negative ones.
    limit = 2**64 - 1 if kind is DALIDataType.UINT64 or low >= 0 else 2**63 - 1
    floor = 0 if limit > 2**63 else -(2**63)
    return np.array([min(max(item, floor), limit) for item in items], np.uint64 if floor == 0 else np.int64)


def _saturated(values: np.ndarray, kind: DALIDataType) -> np.ndarray:
    """`values` converted to the storage of `kind` as DALI's constant operator does: rounded half away from zero, saturated."""
    target = _constant_storage(kind)
    if values.dtype == target:
        return values
    if target == np.bool_:
        # Floats are rounded for BOOL too: 0.4 is false, NaN is not zero.
        return ~(np.abs(values) < 0.5) if values.dtype.kind == "f" else values != 0
    if target.kind == "f":
        with np.errstate(over="ignore"):
            # DALI reaches FLOAT16 through FLOAT, which decides how ties round.
            return values.astype(np.float32).astype(target) if target.itemsize == 2 else values.astype(target)
    if values.dtype.kind == "f":
        return _rounded(values, target)
    if values.dtype.kind == "b":
        return values.astype(target)
    source, limits = np.iinfo(values.dtype), np.iinfo(target)
    return np.clip(values, max(source.min, limits.min), min(source.max, limits.max)).astype(target)


def _rounded(values: np.ndarray, target: np.dtype) -> np.ndarray:
    """Floats to integers, half away from zero, saturated; NaN as DALI on x86: 0, or the sign bit for INT32 and 64-bit types."""
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


def Constant(value: Any, dtype: Any = None, shape: Any = None, layout: str | None = None, device: str | None = None, **kwargs: Any) -> Any:
    """A constant: a `ScalarConstant` where one value is enough, otherwise a node with the same value in every sample.

    - value, dtype, shape: see `constant_array`.
    - layout: one character per dimension of the result.
    - device: "cpu" (default) or "gpu".
    - kwargs: ``name`` of the node; ``preserve`` and ``bytes_per_sample_hint`` are accepted and change nothing.

    It is a `ScalarConstant` when value is a bool, int or float (or a numpy scalar or 0-d array) and no device, layout, kwargs, shape
    other than () and (1,), or enumeration type is asked for.

    Raises what `constant_array` raises; RuntimeError when `layout` does not fit the shape; ValueError for an unknown device; KeyError
    for an unknown keyword.
    """
    if layout is None and device is None and not kwargs and _is_one_value(value, dtype, shape):
        return ScalarConstant(value, dtype)
    return ConstantNode(device, value, dtype, shape, layout, **kwargs)


def _is_one_value(value: Any, dtype: Any, shape: Any) -> bool:
    if isinstance(value, _ENUM_CLASSES) or _constant_shape(shape) not in (None, (), (1,)):
        return False
    if dtype is not None and _given_dtype(dtype) in _ENUM_KINDS.values():
        return False
    return not isinstance(value, (list, tuple)) and (_array_value(value) is None or np.ndim(value) == 0)


def ConstantNode(device: str | None, value: Any, dtype: Any, shape: Any, layout: str | None, **kwargs: Any) -> Any:
    """A node holding a constant, also for a scalar; arguments and errors of `Constant`."""
    unknown = [key for key in kwargs if key not in _NODE_ARGUMENTS]
    if unknown:
        allowed = ", ".join(sorted(_NODE_ARGUMENTS))
        raise KeyError(f'Argument "{unknown[0]}" is not defined for operator "Constant"; it takes {allowed}')
    if device not in (None, "cpu", "gpu", "mixed"):
        raise ValueError(f'Invalid device argument "{device}" for Constant. Valid options are "cpu" and "gpu"')
    values, kind = constant_array(value, dtype, shape)
    axes = "" if layout is None else str(layout)
    if axes and len(axes) != values.ndim:
        raise RuntimeError(f'Constant: The requested layout "{axes}" has {len(axes)} dimensions, the requested output shape {values.shape}')
    from .graph.constants import constant_node

    return constant_node(values, kind, axes, "gpu" if device in ("gpu", "mixed") else "cpu", name=kwargs.get("name"))


def output_constant(value: Any, index: int = 0) -> tuple[np.ndarray, DALIDataType]:
    """One sample of a pipeline output that is not a node: its values (as `constant_array` gives them) and type.

    Raises TypeError when output number `index` cannot be a constant: "nested `DataNode`" for lists and tuples of nodes, "Illegal
    output type" for strings, dictionaries, None and the like; OverflowError as `constant_array`.
    """
    if _holds_node(value):
        raise TypeError(
            f"Illegal pipeline output type. The output {index} contains a nested `DataNode`. "
            "Missing list/tuple expansion (*) is the likely cause."
        )
    try:
        return constant_array(value)
    except TypeError as error:
        raise TypeError(
            f"Illegal output type. The output {index} is a `{type(value)}`. Allowed types are `DataNode` and types convertible to "
            "`types.Constant` (numerical constants, 1D lists/tuple of numbers and ND arrays)."
        ) from error


def _holds_node(value: Any) -> bool:
    # A node can only exist where its module has been loaded, so there is nothing to import here.
    module = sys.modules.get("asyncdali.data_node")
    if module is None or not isinstance(value, (list, tuple)):
        return False
    return any(isinstance(item, module.DataNode) or _holds_node(item) for item in value)
