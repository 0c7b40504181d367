"""Converts results of callables to arrays, and refuses results that are no sample, batch or component."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..limits import check_array

ALLOWED = (
    "allowed are numpy arrays and scalars, Python int, float, bool and bytes, CPU tensors, and objects with __array_interface__, "
    "__array__ or __dlpack__"
)
_INT32 = np.iinfo(np.int32)


class Refused(TypeError):
    """A result that cannot be a sample or a batch. `sample` is its number in the batch, if known."""

    sample: int | None = None


def named(kind: type) -> str:
    module = kind.__module__
    return kind.__qualname__ if module == "builtins" else f"{module.partition('.')[0]}.{kind.__qualname__}"


# -------------------------------------------------------------------------------------------------------------------- samples


def sample_array(value: object) -> np.ndarray:
    """A sample as an array of a supported element type, in this machine's byte order."""
    convert = _CONVERTERS.get(type(value))
    array = _other(value) if convert is None else convert(value)
    return array if array.dtype.isbuiltin == 1 and array.dtype.char in _CHARS else checked(array, value)


_CHARS = "?bhilqBHILQefd"


def checked(array: np.ndarray, value: object) -> np.ndarray:
    dtype = array.dtype
    if dtype.kind in "biuf" and dtype.itemsize <= 8:
        if dtype.isnative:
            return array
        check_array(array, "a sample in another byte order")
        return array.astype(dtype.newbyteorder("="))
    reasons = {"c": "complex numbers", "O": "objects", "U": "text", "S": "text", "M": "dates", "m": "time spans", "f": "extended precision"}
    what = "structured" if dtype.names else reasons.get(dtype.kind, "no plain numbers")
    raise Refused(
        f"a sample of type {named(type(value))} has dtype {dtype} ({what}); allowed are bool, integers and floats of at most 64 bits"
    )


SCALARS: tuple[type, ...] = (
    np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64, np.float16, np.float32, np.float64,
)  # fmt: skip


def _integer(value: int) -> np.ndarray:
    if not _INT32.min <= value <= _INT32.max:
        raise Refused(
            f"the Python int {value} does not fit into int32, the type of Python ints; a numpy scalar can hold the number: "
            f"np.int64({value})"
        )
    return np.array(value, np.int32)


def _same(value: Any) -> Any:
    return value


def _other(value: object) -> np.ndarray:
    """A sample of an unknown type, through the array protocols."""
    if isinstance(value, (np.ndarray, np.generic)):
        return np.asarray(value)
    if isinstance(value, type):
        raise Refused(f"the class {named(value)} is not accepted as a sample; did you mean an object of the class? {ALLOWED}")
    if value is None or isinstance(value, (str, Mapping, list, tuple, set, frozenset)):
        hint = "; num_outputs= makes components of a tuple or list" if isinstance(value, (list, tuple)) else ""
        raise Refused(f"a sample of type {named(type(value))} is not accepted{hint}; {ALLOWED}")
    return foreign_array(value)


def foreign_array(value: Any) -> np.ndarray:
    """An array over an object of another library."""
    if getattr(value, "is_cuda", False) is True or _has(value, "__cuda_array_interface__"):
        raise Refused(f"a GPU tensor ({named(type(value))}) is not accepted from a worker; {ALLOWED}")
    try:
        if callable(getattr(value, "detach", None)) and callable(getattr(value, "numpy", None)):
            return np.asarray(value.detach().numpy())  # torch; `detach` because a tensor may require a gradient
        if _has(value, "__array_interface__") or _has(value, "__array__"):
            return np.asarray(value)
        if type(value).__name__ == "PyCapsule":
            return np.from_dlpack(_CapsuleOwner(value))
        if _has(value, "__dlpack__"):
            if callable(getattr(value, "__dlpack_device__", None)) and int(value.__dlpack_device__()[0]) not in (1, 3):
                raise Refused(f"a GPU tensor ({named(type(value))}) is not accepted from a worker; {ALLOWED}")
            return np.from_dlpack(value)
        return np.asarray(memoryview(value))
    except Refused:
        raise
    except Exception as error:
        reason = "" if isinstance(error, TypeError) and "bytes-like" in str(error) else f" ({type(error).__name__}: {error})"
        raise Refused(f"a sample of type {named(type(value))} is not accepted{reason}; {ALLOWED}") from error


class _CapsuleOwner:
    """Makes a DLPack capsule look like the object that it came from."""

    def __init__(self, capsule: object):
        self._capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def _has(value: object, name: str) -> bool:
    try:
        return getattr(value, name, None) is not None
    except Exception:  # a property of the user's class fails: the value does not have the attribute
        return False


_CONVERTERS: dict[type, Callable[[Any], np.ndarray]] = {
    np.ndarray: _same,
    bool: lambda value: np.array(value, np.bool_),
    int: _integer,
    float: lambda value: np.array(value, np.float32),
    bytes: lambda value: np.frombuffer(value, np.uint8),
    bytearray: lambda value: np.frombuffer(value, np.uint8),
    **dict.fromkeys(SCALARS, np.asarray),
}


def layout_of(value: object) -> str | None:
    """The layout of a tensor that has one."""
    if isinstance(value, (np.ndarray, np.generic)):
        return None
    layout = getattr(value, "layout", None)
    if not callable(layout):
        return None
    found = layout()
    return str(found) if found else None


# ----------------------------------------------------------------------------------------------------------------- components


def components(result: Any, count: int | None) -> list[object]:
    """The first `count` components of a result; the result itself if it has no components."""
    if count is None:
        return [result]
    if isinstance(result, (str, bytes, type)) or result is None:
        what = f"the class {named(result)}" if isinstance(result, type) else f"a {named(type(result))}"
        raise Refused(f"{count} components are expected (num_outputs), not {what}")
    if isinstance(result, (tuple, list)) and len(result) < count:
        raise IndexError(f"{count} components are expected (num_outputs), {len(result)} were given")
    found: list[Any] = []
    for index in range(count):
        try:
            found.append(result[index])
        except (IndexError, KeyError) as error:
            raise IndexError(f"{count} components are expected (num_outputs), {index} were given") from error
        except TypeError as error:
            raise Refused(f"{count} components are expected (num_outputs); a {named(type(result))} cannot be indexed") from error
    return found


# -------------------------------------------------------------------------------------------------------------------- batches


class WholeBatch:
    """A batch as one array whose first axis counts the samples."""

    def __init__(self, array: np.ndarray, layout: str | None):
        self.array = array
        self.layout = layout

    def __len__(self) -> int:
        return len(self.array)


def batch_samples(value: Any) -> list[Any] | WholeBatch:
    """One component of a callable's batch: a list of samples, or one array."""
    if isinstance(value, (list, tuple)):
        return list(value)
    if isinstance(value, type):
        raise Refused(
            f"the class {named(value)} is not accepted as a batch; did you mean an object of the class? Allowed are lists and tuples of "
            "samples, "
            "or an array of them"
        )
    if value is None or isinstance(value, (str, bytes, Mapping, set, frozenset, bool, int, float, np.generic)):
        raise Refused(f"a batch of type {named(type(value))} is not accepted; allowed are lists and tuples of samples, or an array of them")
    if callable(getattr(value, "at", None)) and callable(getattr(value, "layout", None)) and hasattr(value, "__len__"):
        return [_Labelled(value.at(index), layout_of(value)) for index in range(len(value))]
    if hasattr(type(value), "__next__"):
        raise Refused(f"a batch of type {named(type(value))} is not accepted; allowed are lists and tuples of samples, or an array of them")
    array = checked(value if type(value) is np.ndarray else _other(value), value)
    if array.ndim == 0:
        raise Refused(f"a batch of type {named(type(value))} has no dimension; its first axis must count the samples")
    layout = layout_of(value)
    return WholeBatch(array, layout[1:] if layout is not None and len(layout) == array.ndim else layout)


class _Labelled:
    """A sample of a tensor list: its array, and the list's layout."""

    def __init__(self, value: object, layout: str | None):
        self.__array_interface__ = sample_array(value).__array_interface__
        self._value = value
        self._layout = layout

    def layout(self) -> str | None:
        return self._layout
