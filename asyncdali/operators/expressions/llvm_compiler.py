"""LLVM, from intermediate code to machine code, without Numba's front end: about 10 ms per expression instead of 100 to 300 ms.

Imported only for code that is not in the cache (``stored_code``).
"""

from __future__ import annotations

import functools
import threading
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir

from ...compiled.machine_code import MachineCode, mathematics_symbol, undefined_symbols
from ...compiled.target import processor_has, target

_lock = threading.RLock()


@functools.cache
def _machine() -> Any:
    """The target machine that optimises and compiles."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    _, processor, features = target()
    return llvm.Target.from_default_triple().create_target_machine(cpu=processor, features=features, opt=2, jit=True)


def new_module(name: str) -> ir.Module:
    """An empty module for this machine."""
    module = ir.Module(name)
    with _lock:
        machine = _machine()
        module.triple, module.data_layout = machine.triple, str(machine.target_data)
    return module


def prefer_long_vectors(function: ir.Function) -> None:
    """Request vectors of 512 bits, if the processor has them, for a function with much computation between loads and stores.

    By default LLVM uses 256 bits; chains of float64 operations (``tanf``) then take 1.5 times as long.
    """
    set.add(function.attributes, '"prefer-vector-width"="512"')  # `add` supports only attributes without values.


@functools.cache
def float_lanes() -> int:
    """Number of float32 in a register, for loops whose operations are mostly on float32; 0: LLVM's choice."""
    return 16 if processor_has("avx512f") else 8 if processor_has("avx2") else 0


def machine_code(module: ir.Module, function: str) -> MachineCode:
    """Optimise and compile a module whose function is `function`."""
    with _lock:
        parsed = llvm.parse_assembly(str(module))
        _optimise(parsed, _machine())
        file = _machine().emit_object(parsed)
    return MachineCode(function, tuple(undefined_symbols(file)), file)


def _optimise(module: Any, machine: Any) -> None:
    if not hasattr(llvm, "create_pass_builder"):  # llvmlite before 0.44
        builder = llvm.create_pass_manager_builder()
        builder.opt_level, builder.loop_vectorize = 2, True
        passes = llvm.create_module_pass_manager()
        machine.add_analysis_passes(passes)
        builder.populate(passes)
        passes.run(module)
        return
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = True
    options.slp_vectorization = options.loop_unrolling = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)


def library_function(module: ir.Module, name: str, signature: ir.FunctionType) -> ir.Function:
    """A function of the C library's mathematics. LLVM does not recognise it, so it replaces no call by an approximation."""
    symbol = mathematics_symbol(name)
    return module.globals.get(symbol) or ir.Function(module, signature, symbol)
