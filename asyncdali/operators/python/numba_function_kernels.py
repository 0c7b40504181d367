"""Steps around users' functions for Numba."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cfunc, njit, types
from numba.core.errors import TypingError
from numba.core.registry import CPUDispatcher

from ...compiled.intrinsics import load_i64, view_of
from ...errors import OperatorTypeError


def jitted(function: Any, name: str, boundscheck: bool = False) -> Any:
    """The function, compiled by Numba; TypeError if it is not a function. `boundscheck`: check indices, unless it is already compiled."""
    if isinstance(function, CPUDispatcher):
        return function
    if not callable(function):
        raise TypeError(f"`{name}` must be a function, got {type(function).__name__}")
    return njit(nogil=True, boundscheck=boundscheck)(function)


class FunctionTypingError(OperatorTypeError, TypingError):
    """Numba cannot type a user's function. It is also numba's TypingError, which programs for DALI catch."""

    def __init__(self, message: str):
        TypingError.__init__(self, message)
        self.args = (message,)


def typed(function: Any, name: str, kinds: list[Any]) -> None:
    """Compile a function for arguments of `kinds` (types of Numba). FunctionTypingError if that is impossible."""
    try:
        function.compile(tuple(kinds))
    except TypingError as error:
        raise FunctionTypingError(f"`{name}` cannot be compiled by Numba: {error}") from error


def shape_tables(count: int) -> Any:
    """The type of `setup_fn`'s arguments: a tuple of int64[samples, dimensions]."""
    return types.UniTuple(types.Array(types.int64, 2, "C"), count)


# Context table: two entries for every array, outputs first: addresses of its samples, and their shapes int64[samples, dimensions].
# Compiled code cannot raise an exception here: the status reports that there was one, and the sample's error names the function.
_TEMPLATE = """
def numba_step(context, sample, thread):
{arrays}
    try:
        run({names})
    except Exception:
        return 1
    return 0
"""


def step_of(run: Any, dtypes: list[np.dtype], ndims: list[int]) -> Any:
    """A step that calls `run` with arrays over one sample of each output and input. Returns a Numba C function (``.address``)."""
    lines, names = [], []
    scope: dict[str, Any] = {"run": run, "load_i64": load_i64}
    for k, (dtype, ndim) in enumerate(zip(dtypes, ndims)):
        scope[f"view{k}"] = view_of(dtype)
        lines.append(f"    shape{k} = load_i64(context + {16 * k + 8}) + {8 * ndim} * sample")
        extents = [f"load_i64(shape{k} + {8 * axis})" for axis in range(ndim)]
        lines.append(f"    flat{k} = view{k}(load_i64(load_i64(context + {16 * k}) + 8 * sample), {' * '.join(extents) or '1'})")
        reshaped = f".reshape(({', '.join(extents)},))" if ndim else ""
        lines.append(f"    array{k} = flat{k}{reshaped}")
        names.append(f"array{k}")
    exec(_TEMPLATE.format(arrays="\n".join(lines), names=", ".join(names)), scope)
    return cfunc("int64(int64, int64, int64)")(scope["numba_step"])
