"""Types and functions for kernels, declared without Numba.

Modules with kernels are imported in every process, but most processes load all kernels from files. Importing Numba takes 0.2 s of a
processor. So kernel modules declare types, signatures, functions of C and LLVM code with the classes of this module. Numba's own objects
are made from them when a kernel that uses them is compiled.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np


class Kind:
    """A type of values in kernels. Calling it with the types of arguments gives a signature, as in Numba."""

    def __init__(self, name: str):
        self.name = name

    def __repr__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and str(other) == self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __call__(self, *arguments: Any) -> KernelSignature:
        return KernelSignature(self, arguments)

    @functools.cached_property
    def of_numba(self) -> Any:
        """Numba's type."""
        from numba import types

        return getattr(types, self.name)


class Number(Kind):
    """An integer, a float or a truth value. `bitwidth`: its size in memory; `is_signed`: of integers."""

    def __init__(self, name: str, bitwidth: int):
        super().__init__(name)
        self.bitwidth = bitwidth
        self.is_float = name.startswith("float")
        self.is_signed = name.startswith("int")


class Array(Kind):
    """A one-dimensional array of contiguous elements."""

    def __init__(self, element: Number):
        super().__init__(f"array({element})")
        self.element = element

    @functools.cached_property
    def of_numba(self) -> Any:
        from numba import types

        return types.Array(self.element.of_numba, 1, "C")


class Repeated(Kind):
    """A tuple of `count` values of one type."""

    def __init__(self, element: Kind, count: int):
        super().__init__(f"tuple({element} x {count})")
        self.element, self.count = element, count

    @functools.cached_property
    def of_numba(self) -> Any:
        from numba import types

        return types.UniTuple(self.element.of_numba, self.count)


class Vector(Kind):
    """`count` numbers of the type `element` in registers; :mod:`.vectors` has their functions."""

    def __init__(self, element: Number, count: int):
        super().__init__(f"vector({element} x {count})")
        self.element, self.count = element, count

    @functools.cached_property
    def of_numba(self) -> Any:
        from .numba_vectors import VectorType

        return VectorType(self)


class KernelSignature:
    """The types of a function's result and arguments. A type may be Numba's own."""

    def __init__(self, result: object, args: tuple[object, ...]):
        self.return_type, self.args = result, args

    def __repr__(self) -> str:
        return f"({', '.join(map(str, self.args))}) -> {self.return_type}"

    @property
    def of_numba(self) -> Any:
        """Numba's signature."""
        return of_numba(self.return_type)(*map(of_numba, self.args))


def of_numba(kind: Any) -> Any:
    """Numba's object for a type or a signature of this module. Other objects are returned as they are."""
    return kind.of_numba if isinstance(kind, (Kind, KernelSignature)) else kind


int8, int16, int32, int64 = (Number(f"int{bits}", bits) for bits in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (Number(f"uint{bits}", bits) for bits in (8, 16, 32, 64))
float32, float64 = Number("float32", 32), Number("float64", 64)
boolean = Number("boolean", 1)
void = Kind("void")
_NUMBERS = {kind.name: kind for kind in (int8, int16, int32, int64, uint8, uint16, uint32, uint64, float32, float64)}
_NUMBERS |= {"bool": boolean, "float16": Number("float16", 16)}


def from_dtype(dtype: Any) -> Number:
    """The type of the elements of a NumPy array. KeyError for other elements than numbers and truth values."""
    return _NUMBERS[np.dtype(dtype).name]


class ExternalFunction:
    """A function of the C library, for kernels."""

    def __init__(self, symbol: str, signature: KernelSignature):
        self.symbol, self.signature = symbol, signature

    def __repr__(self) -> str:
        return f"{self.symbol}{self.signature}"

    @functools.cached_property
    def _numba_type_(self) -> object:
        """Numba asks for the type of a global value in this way."""
        from numba import types

        return types.ExternalFunction(self.symbol, self.signature.of_numba)


    def __call__(self, *args: Any) -> Any:
        """For type checkers: only kernels can call it."""
        raise NotImplementedError(f"{self.symbol} can only be called in kernels")


class Intrinsic:
    """A function for kernels that is made of LLVM's instructions: Numba's ``intrinsic``, made when a kernel that calls it is compiled."""

    def __init__(self, definition: Callable[..., Any]):
        self._defn = definition
        functools.update_wrapper(self, definition)

    @functools.cached_property
    def _numba_type_(self) -> object:
        from numba import types
        from numba.core.typing.templates import make_intrinsic_template

        definition = self._defn

        @functools.wraps(definition)
        def translated(*args: object, **kws: object) -> object:
            signature, code = definition(*args, **kws)
            return of_numba(signature), code

        return types.Function(make_intrinsic_template(self, translated, definition.__name__))

    def __call__(self, *args: Any) -> Any:
        """For type checkers: only kernels can call it."""
        raise NotImplementedError(f"{self._defn.__qualname__} can only be called in kernels")


def intrinsic(definition: Callable[..., object]) -> Intrinsic:
    """Decorator: ``definition(typingctx, ...) -> (signature, codegen)`` is a function for kernels, as with Numba's ``intrinsic``."""
    return Intrinsic(definition)


class _Late(ModuleType):
    """Numba's module of the same name, imported at the first use of one of its functions."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # Python asks every module for such names
            raise AttributeError(name)
        from numba.core import cgutils

        return getattr(cgutils, name)


cgutils: Any = _Late("numba.core.cgutils")
"""Numba's functions that write LLVM code. Only code generators use them."""
