"""Whether our vectorised functions give the C library's bits on this machine; tested once per process and function."""

from __future__ import annotations

import ctypes
import functools

import numpy as np

from ...compiled.machine_code import MachineCode
from .stored_code import address_of

NUMBERS = 4096


def same_as_library(name: str) -> bool:
    """Whether a function of ``VECTORISED`` has the library's bits for several thousand numbers that it covers."""
    return _differing(name) == 0


@functools.cache
def _differing(name: str) -> int:
    return differing(name, *_numbers())


def _numbers() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(1)
    drawn = [random.uniform(-limit, limit, NUMBERS) for limit in (0.4, 1.1, 30, 200)]
    drawn += [np.exp(random.uniform(-20, 20, NUMBERS)), random.uniform(0, 1, NUMBERS)]
    numbers = np.concatenate(drawn).astype(np.float32)
    return numbers, np.roll(numbers, NUMBERS // 2)


def differing(name: str, x: np.ndarray, y: np.ndarray) -> int:
    """Count the numbers, float32[count] (pairs, if the function takes two), for which a function and the library have different
    bits."""
    x, y = np.ascontiguousarray(x, np.float32), np.ascontiguousarray(y, np.float32)
    return counted(_counter(name), x, y)


def counted(counter: int, x: np.ndarray, y: np.ndarray) -> int:
    """The result of the function at the address `counter`."""
    count = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 2, ctypes.c_int64)(counter)
    return int(count(x.ctypes.data, y.ctypes.data, len(x)))


@functools.cache
def _counter(name: str) -> int:
    """Address of ``count(x, y, numbers)``: the number of results that differ."""

    def make(symbol: str) -> MachineCode:
        from .probe_code import counter_code

        return counter_code(name, symbol)

    return address_of(f"probe of {name}", make)
