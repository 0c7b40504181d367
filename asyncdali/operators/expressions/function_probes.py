"""Whether our vectorised functions give the C library's bits on this machine; tested once per process and function."""

from __future__ import annotations

import ctypes
import functools

import numpy as np
from llvmlite import ir

from .float_functions import FUNCTIONS
from .llvm_compiler import library_function, machine_code, new_module
from .loops import loop
from .values import F32, I64, Value

NUMBERS = 4096
_POINTER = F32.as_pointer()


def same_as_library(name: str) -> bool:
    """Whether a function of ``FUNCTIONS`` has the library's bits for several thousand numbers that it covers."""
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
    """Of the numbers float32[count] (pairs, if the function takes two), count those for which a function and the library have different
    bits."""
    x, y = np.ascontiguousarray(x, np.float32), np.ascontiguousarray(y, np.float32)
    count = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 2, ctypes.c_int64)(_counter(name))
    return int(count(x.ctypes.data, y.ctypes.data, len(x)))


@functools.cache
def _counter(name: str) -> int:
    """Address of ``count(x, y, numbers)``: the number of results that differ."""
    operands = FUNCTIONS[name].__code__.co_argcount
    symbol = f"asyncdali_probe_{name}"
    module = new_module(symbol)
    function = ir.Function(module, ir.FunctionType(I64, [_POINTER, _POINTER, I64]), symbol)
    builder = ir.IRBuilder(function.append_basic_block())
    total = builder.alloca(I64)
    builder.store(I64(0), total)
    library = builder.inttoptr(I64(library_function(name + "f")), ir.FunctionType(F32, [F32] * operands).as_pointer())

    def one(index: ir.Value) -> None:
        numbers = [builder.load(builder.gep(function.args[k], [index])) for k in range(operands)]
        ours, beyond = FUNCTIONS[name](*(Value(builder, number) for number in numbers))
        theirs = Value(builder, builder.call(library, numbers))
        wrong = ours.bits().equals(theirs.bits()).negated() & beyond.negated()
        builder.store(builder.add(builder.load(total), builder.zext(wrong.raw, I64)), total)

    loop(builder, function.args[2], one)
    builder.ret(builder.load(total))
    return machine_code(module, symbol)
