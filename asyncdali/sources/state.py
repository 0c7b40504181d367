"""The state of a user's source as JSON data, and back. Nothing in it is executed."""

from __future__ import annotations

import base64
import json
import math
from typing import Any

import numpy as np


def encode_state(value: object, path: str = "state") -> object:
    """JSON data for numbers, text, bytes, None, numpy arrays and scalars, and lists, tuples, dicts and sets of them.

    A value without a JSON form becomes an object with one tag. The TypeError names the path of a value that cannot be saved.
    """
    if value is None or type(value) in (bool, int, float, str):
        return value if type(value) is not float or math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, (bytes, bytearray)):
        return {"bytes": _text(bytes(value))}
    if isinstance(value, np.generic):
        return {"scalar": _text(value.tobytes()), "dtype": _dtype(value.dtype, path)}
    if isinstance(value, np.ndarray):
        data = np.ascontiguousarray(value)
        return {"array": _text(data.tobytes()), "dtype": _dtype(value.dtype, path), "shape": list(value.shape)}
    if isinstance(value, list):
        return [encode_state(item, f"{path}[{k}]") for k, item in enumerate(value)]
    if type(value) is tuple:
        return {"tuple": [encode_state(item, f"{path}[{k}]") for k, item in enumerate(value)]}
    if isinstance(value, (set, frozenset)):
        items = [encode_state(item, f"{path}{{}}") for item in value]
        return {"set": sorted(items, key=json.dumps)}
    if isinstance(value, dict):
        return {"dict": [[encode_state(key, f"{path} key"), encode_state(item, f"{path}[{key!r}]")] for key, item in value.items()]}
    raise TypeError(f"{path} is a {type(value).__name__}; a state holds numbers, text, bytes, numpy arrays, lists, tuples, sets and dicts")


def decode_state(data: object) -> Any:
    """The argument of :func:`encode_state`. ValueError for data that it did not make."""
    if isinstance(data, list):
        return [decode_state(item) for item in data]
    if not isinstance(data, dict):
        return data
    try:
        return _tagged(data)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError, RecursionError) as error:
        raise ValueError(f"the state of a source is damaged: {error}") from error


def _tagged(data: dict[str, Any]) -> Any:
    if "float" in data:
        return float(data["float"])
    if "bytes" in data:
        return base64.b64decode(data["bytes"])
    if "scalar" in data:
        return np.frombuffer(base64.b64decode(data["scalar"]), np.dtype(data["dtype"]))[0]
    if "array" in data:
        return np.frombuffer(base64.b64decode(data["array"]), np.dtype(data["dtype"])).reshape(data["shape"]).copy()
    if "tuple" in data:
        return tuple(decode_state(data["tuple"]))
    if "set" in data:
        return set(decode_state(data["set"]))
    return {decode_state(key): decode_state(item) for key, item in data["dict"]}


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _dtype(dtype: np.dtype, path: str) -> str:
    if dtype.hasobject or dtype.fields:
        raise TypeError(f"{path} is an array of {dtype}, which cannot be saved")
    return dtype.str
