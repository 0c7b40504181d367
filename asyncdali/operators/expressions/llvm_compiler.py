"""LLVM, from intermediate code to machine code, without Numba's front end: about 10 ms per expression instead of 100 to 300 ms.

Imported only in ``build()``. Code lives as long as the process, like Numba's; equal expressions share it.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir

from ...compiled.target import processor_has, target

_lock = threading.RLock()


@functools.cache
def _engine() -> tuple[Any, Any]:
    """The target machine that optimises, and the engine that holds all code (the engine owns a second machine)."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple()
    _, processor, features = target()
    machines = [machine.create_target_machine(cpu=processor, features=features, opt=2, jit=True) for _ in range(2)]
    empty = llvm.parse_assembly("")
    empty.triple = machine.triple
    return machines[0], llvm.create_mcjit_compiler(empty, machines[1])


def new_module(name: str) -> ir.Module:
    """An empty module for this machine."""
    module = ir.Module(name)
    with _lock:
        machine = _engine()[0]
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


def machine_code(module: ir.Module, function: str) -> int:
    """Optimise a module; returns the address of `function`."""
    with _lock:
        machine, engine = _engine()
        parsed = llvm.parse_assembly(str(module))
        _optimise(parsed, machine)
        engine.add_module(parsed)
        engine.finalize_object()
        address: int = engine.get_function_address(function)
        return address


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


@functools.cache
def library_function(name: str) -> int:
    """Address of a function of the C library's mathematics.

    The code calls it by address. LLVM then cannot recognise the function and replace it by an approximation.
    """
    try:
        library = ctypes.CDLL("libm.so.6")
    except OSError:  # not glibc: search the loaded libraries, because `find_library` would run other programs
        library = ctypes.CDLL(None)
    address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
    assert address
    return address
