"""Kernels for `numba.cuda` without a GPU.

Kernels are compiled for the CPU, with Numba's arithmetic, and run thread after thread. They may ask for their thread's position (grid,
threadIdx ...), and use atomics, local and constant arrays and device functions. A kernel whose threads wait for each other (barriers,
shared memory), or that uses rarer features, is refused in ``build()``: it needs a GPU.

The user's function is not changed: a copy of it uses the stand-ins below in place of `numba.cuda`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
from numba import from_dtype, int64, njit, types
from numba.core.imputils import lower_constant
from numba.extending import models, overload, overload_attribute, register_model, typeof_impl

from ...compiled.addresses import address_of
from ...compiled.intrinsics import load_i64
from .numba_function_on_host_tables import PLACE

Triple = tuple[int, int, int]

# --- position of a thread

_PLACE = PLACE.zeros(1)[0]
"""Position of the running thread. Only one launch runs at a time (`_TURN`)."""
_TURN = threading.Lock()
_AT = address_of(_PLACE)
_NAMES = tuple(field.name for field in PLACE.fields)
at = PLACE.at


class _Place:
    """Stand-in for threadIdx and similar names."""

    def __init__(self, field: str):
        self.first = _AT + getattr(at, f"{field}_x")


class _PlaceType(types.Type):
    def __init__(self, first: int):
        self.first = first
        super().__init__(name=f"place({first})")


register_model(_PlaceType)(models.OpaqueModel)


@typeof_impl.register(_Place)
def _type_of_place(value, context):
    return _PlaceType(value.first)


@lower_constant(_PlaceType)
def _constant_place(context, builder, kind, value):
    return context.get_dummy_value()


def _axis(offset: int) -> Callable[[Any], Any]:
    def typed(place):
        address = place.first + 8 * offset
        return lambda place: load_i64(address)

    return typed


for _k, _name in enumerate("xyz"):
    overload_attribute(_PlaceType, _name)(_axis(_k))


def _grid(ndim):
    """``cuda.grid``, for compiled code only."""


def _gridsize(ndim):
    """``cuda.gridsize``, for compiled code only."""


@njit
def _position(axis):
    first = _AT + 8 * axis
    return load_i64(first + at.blockIdx_x) * load_i64(first + at.blockDim_x) + load_i64(first + at.threadIdx_x)


@njit
def _extent(axis):
    first = _AT + 8 * axis
    return load_i64(first + at.blockDim_x) * load_i64(first + at.gridDim_x)


def _by_dimensions(one: Any) -> Callable[[Any], Any]:
    """The overload of a function of the number of dimensions. The number must be a literal."""

    def typed(ndim):
        count = getattr(ndim, "literal_value", None)
        forms = {1: lambda ndim: one(0), 2: lambda ndim: (one(0), one(1)), 3: lambda ndim: (one(0), one(1), one(2))}
        return forms.get(count)  # type: ignore[arg-type]

    return typed


overload(_grid, prefer_literal=True)(_by_dimensions(_position))
overload(_gridsize, prefer_literal=True)(_by_dimensions(_extent))


def _atomic(change: Callable[[Any, Any], Any]) -> Any:
    """An atomic function. Threads run one after another, so a plain operation is atomic."""
    changed = njit(change)

    @njit
    def function(array, index, value):
        old = array[index]
        array[index] = changed(old, value)
        return old

    return function


def _module(name: str, **names: Any) -> ModuleType:
    made = ModuleType(f"numba.cuda{name} on the host")
    made.__dict__.update(names)
    return made


_CUDA = _module(
    "",
    grid=_grid,
    gridsize=_gridsize,
    **{field: _Place(field) for field in _NAMES},
    atomic=_module(
        ".atomic",
        add=_atomic(lambda old, value: old + value),
        sub=_atomic(lambda old, value: old - value),
        min=_atomic(lambda old, value: min(old, value)),
        max=_atomic(lambda old, value: max(old, value)),
        and_=_atomic(lambda old, value: old & value),
        or_=_atomic(lambda old, value: old | value),
        xor=_atomic(lambda old, value: old ^ value),
        exch=_atomic(lambda old, value: value),
    ),
    local=_module(".local", array=njit(lambda shape, dtype: np.empty(shape, dtype))),
    const=_module(".const", array_like=njit(lambda array: array)),
)
"""Stand-in for ``numba.cuda``."""


# --- copies of users' functions


def _names_in(code: CodeType) -> set[str]:
    """The names that a function and its inner functions look up."""
    return set(code.co_names).union(*(_names_in(item) for item in code.co_consts if isinstance(item, CodeType)))


class _Copies:
    """Copies of a kernel and of the device functions that it calls, in which `cuda` is the stand-in for ``numba.cuda``."""

    def __init__(self) -> None:
        from numba import cuda

        self._real = cuda
        self._found: dict[int, Any] = {}

    def copy(self, function: FunctionType) -> FunctionType:
        return self._filled(self._empty(function), function)

    @staticmethod
    def _empty(function: FunctionType) -> FunctionType:
        cells = tuple(CellType() for _ in function.__closure__ or ())
        copied = FunctionType(function.__code__, dict(function.__globals__), function.__name__, function.__defaults__, cells or None)
        copied.__qualname__, copied.__module__ = function.__qualname__, function.__module__
        return copied

    def _filled(self, copied: FunctionType, function: FunctionType) -> FunctionType:
        for cell, original in zip(copied.__closure__ or (), function.__closure__ or ()):
            cell.cell_contents = self._replaced(original.cell_contents)
        scope = copied.__globals__
        for name in _names_in(function.__code__) & scope.keys():
            scope[name] = self._replaced(scope[name])
        return copied

    def _replaced(self, value: Any) -> Any:
        if value is self._real:
            return _CUDA
        if id(value) in self._found:
            return self._found[id(value)]
        if isinstance(getattr(value, "py_func", None), FunctionType) and type(value).__module__.startswith("numba.cuda"):
            copied = self._empty(value.py_func)
            made = self._found[id(value)] = njit(copied)  # Registered before it is filled, because it may call itself.
            self._filled(copied, value.py_func)
            return made
        for name, own in vars(self._real).items():  # For "from numba.cuda import grid".
            if own is value and not name.startswith("_") and hasattr(_CUDA, name):
                return getattr(_CUDA, name)
        return value


# --- launches: threads run one after another


_LAUNCH = """
def launch(place, {names}):
    for bz in range(place[word.gridDim_z]):
        for by in range(place[word.gridDim_y]):
            for bx in range(place[word.gridDim_x]):
                for tz in range(place[word.blockDim_z]):
                    for ty in range(place[word.blockDim_y]):
                        for tx in range(place[word.blockDim_x]):
                            place[word.threadIdx_x], place[word.threadIdx_y], place[word.threadIdx_z] = tx, ty, tz
                            place[word.blockIdx_x], place[word.blockIdx_y], place[word.blockIdx_z] = bx, by, bz
                            kernel({names})
"""


_ALLOWED = (
    "On the host device the threads of a kernel run one after another. A kernel may use the position of its thread (grid, gridsize, "
    "threadIdx ...), atomics (add, sub, min, max, and_, or_, xor, exch), local and constant arrays, and device functions. Kernels with "
    "barriers, shared memory or other features of numba.cuda run on a GPU only: give the pipeline a device_id."
)


def _compiled(kernel: Any, dtypes: list[np.dtype], ndims: list[int]) -> Any:
    """``launch(place, arrays...)``, compiled for dense arrays. RuntimeError with the reason if the kernel does not compile."""
    names = ", ".join(f"array{k}" for k in range(len(dtypes)))
    scope: dict[str, Any] = {"kernel": njit(boundscheck=True)(kernel), "word": PLACE.word}
    exec(_LAUNCH.format(names=names), scope)
    launch = njit(nogil=True)(scope["launch"])
    arrays = [types.Array(from_dtype(dtype), ndim, "C") for dtype, ndim in zip(dtypes, ndims)]
    try:
        launch.compile((int64[::1], *arrays))
    except Exception as error:
        raise RuntimeError(f"`run_fn` cannot be compiled for the host device: {type(error).__name__}: {error}\n{_ALLOWED}") from error
    return launch


def runner(
    function: FunctionType, dtypes: list[np.dtype], ndims: list[int], blocks: Triple, threads: Triple
) -> Callable[[list[np.ndarray]], None]:
    """``run(arrays)``: one launch of the kernel over `blocks` of `threads`, on the CPU."""
    launch = _compiled(_Copies().copy(function), dtypes, ndims)

    def run(arrays: list[np.ndarray]) -> None:
        with _TURN:
            _PLACE[PLACE.columns("blockDim")], _PLACE[PLACE.columns("gridDim")] = threads, blocks
            launch(_PLACE, *arrays)

    return run
