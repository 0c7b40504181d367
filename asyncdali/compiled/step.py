"""Decorators that turn Python functions into cached, interpreter-free machine code."""

from __future__ import annotations

import ctypes

from numba import cfunc, njit, types

_I64 = types.int64
_OPTIONS = {"error_model": "numpy", "boundscheck": False}

inlined = njit(inline="never", nogil=True, **_OPTIONS)
"""A helper called by steps; compiled into whatever uses it."""


class Compiled:
    """A C function: ``address`` for other compiled code, calling it from Python releases the GIL."""

    __slots__ = ("_call", "_keep", "address")

    def __init__(self, function, argument_count: int):
        self._keep = function
        self.address = function.address
        self._call = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * argument_count)(function.address)

    def __call__(self, *args: int) -> int:
        return self._call(*args)


def compiled(argument_count: int):
    """Decorator: compile ``f(int64, ...) -> int64`` (cached on disk beside the source, or in the user's cache)."""

    def decorate(function) -> Compiled:
        signature = _I64(*[_I64] * argument_count)
        return Compiled(cfunc(signature, cache=True, **_OPTIONS)(function), argument_count)

    return decorate


step = compiled(3)
"""Decorator for ``step(context, sample, thread) -> status``; see the package docstring."""


def callback(function):
    """Compile ``f(int64) -> void`` for use as a C library's callback; gives the Numba object (``.address``)."""
    return cfunc(types.void(_I64), cache=True, **_OPTIONS)(function)
