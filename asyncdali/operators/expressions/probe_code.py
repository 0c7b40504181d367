"""The code that counts for how many numbers a function of ``float_functions`` and the C library differ."""

from __future__ import annotations

from llvmlite import ir

from ...compiled.machine_code import MachineCode
from .float_functions import FUNCTIONS
from .llvm_compiler import library_function, machine_code, new_module
from .loops import loop
from .values import F32, I64, Value

_POINTER = F32.as_pointer()


def counter_code(name: str, symbol: str) -> MachineCode:
    """The code of ``count(x, y, numbers)``."""
    operands = FUNCTIONS[name].__code__.co_argcount
    module = new_module(symbol)
    function = ir.Function(module, ir.FunctionType(I64, [_POINTER, _POINTER, I64]), symbol)
    builder = ir.IRBuilder(function.append_basic_block())
    total = builder.alloca(I64)
    builder.store(I64(0), total)
    library = library_function(module, name + "f", ir.FunctionType(F32, [F32] * operands))

    def one(index: ir.Value) -> None:
        numbers = [builder.load(builder.gep(function.args[k], [index])) for k in range(operands)]
        ours, beyond = FUNCTIONS[name](*(Value(builder, number) for number in numbers))
        theirs = Value(builder, builder.call(library, numbers))
        wrong = ours.bits().equals(theirs.bits()).negated() & beyond.negated()
        builder.store(builder.add(builder.load(total), builder.zext(wrong.raw, I64)), total)

    loop(builder, function.args[2], one)
    builder.ret(builder.load(total))
    return machine_code(module, symbol)
