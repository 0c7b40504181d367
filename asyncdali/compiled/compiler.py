"""Numba's compiler without the passes that kernels do not need.

With empty caches the first batch waits for the compiler, and most of that time goes to general cases. Kernels consist of scalars, addresses
and views. They have no exceptions, closures or reference counts, and their helpers are called only from kernels. So

* passes for closures, ``with``, array expressions, parallel loops and overload inlining are not run;
* a helper is only translated: it is optimised and compiled as a part of the kernels into which it is linked;
* the remaining passes do less (:mod:`.lowering`), and references are counted only in functions that need this;
* the meaning of a function for given types is looked up once and cached.

Together this saves half of the time of cold kernels.
"""

from __future__ import annotations

import re
from functools import cache, cached_property, partial
from types import BuiltinFunctionType
from typing import Any, ClassVar

from llvmlite import ir
from numba import _dynfunc, types
from numba.core import codegen, compiler, typed_passes, typing, untyped_passes
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.errors import NumbaError

from . import (
    lowering,
    numba_vectors,  # noqa: F401  its operators are declared before a function is typed
)
from .target import target

_FUNCTIONS = (types.Function, types.NumberClass, BuiltinFunctionType)  # Numba types of built-in functions, of conversions and of operators
_PLAIN = (types.Number, types.Boolean, types.Array)


class _Remembering(typing.Context):
    """A typing context that caches signatures and shares everything else with the original context.

    Constants count as values of their type, because nothing that kernels call depends on the value.
    """

    known: ClassVar[dict[tuple[Any, ...], Any]] = {}

    def __init__(self, context: typing.Context):
        self.__dict__ = context.__dict__

    def resolve_function_type(self, func: Any, args: Any, kws: Any) -> Any:
        plain = tuple(types.unliteral(kind) for kind in args)
        if kws or not isinstance(func, _FUNCTIONS) or not all(isinstance(kind, _PLAIN) for kind in plain):
            return super().resolve_function_type(func, args, kws)
        found = self.known.get((func, plain))
        if found is None:
            found = self.known[func, plain] = super().resolve_function_type(func, plain, kws)
        return found


@cache
def _remembering(context: typing.Context) -> _Remembering:
    return _Remembering(context)  # a single object, because other caches identify contexts by identity


class _Whole(codegen.JITCodeLibrary):
    """The code of a kernel."""

    counts = False
    """Whether it counts references."""


class _Codegen(codegen.JITCPUCodegen):
    """Machine code for the target of kernels. Numba's own, for functions of users, is for the exact processor."""

    _library_class = _Whole

    def _function_pass_manager(self, *arguments: object, **options: object) -> object:
        """One for all functions: Numba asks for each, also for those that it only declares.

        In versions before 0.62 a manager belongs to a module, which is an argument."""
        return super()._function_pass_manager(*arguments, **options) if arguments or options else self._passes_of_functions

    @cached_property
    def _passes_of_functions(self) -> object:
        return super()._function_pass_manager()

    def _get_host_cpu_name(self) -> str:
        return target().processor

    def _get_host_cpu_features(self) -> str:
        return target().features


@cache
def _codegen() -> _Codegen:
    return _Codegen("asyncdali.kernels")


class _Part(codegen.JITCodeLibrary):
    """The code of a helper, which is linked into other functions and never run by itself."""

    counts = False
    """Whether it counts references."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


class _Lowering(typed_passes.NativeLowering):
    """Numba's lowering, without reference counts where nothing is counted.

    Views of memory have no owner. So only a function that makes arrays, or gets one from a function that does, needs counts. It is lowered
    once more, as Numba does it.
    """

    lowering_class = lowering.Lower

    def run_pass(self, state: compiler.StateDict) -> bool:
        library = self.prepared(state)
        state.targetctx.enable_nrt = False  # only for this function; compiling a function that makes arrays then fails
        try:
            super().run_pass(state)
            if not any(map(_counts, library._linking_libraries)):
                return True
        except NumbaError:  # the function makes arrays, or has an error, which the second try raises again
            pass
        state.targetctx.enable_nrt = True
        self.prepared(state).counts = True
        typed_passes.IRLegalization().run_pass(state)  # where each variable ends
        return bool(typed_passes.NativeLowering().run_pass(state))

    def prepared(self, state: compiler.StateDict) -> codegen.CodeLibrary:
        """Give the state a new library, which is returned."""
        raise NotImplementedError


_MAKES = re.compile(r"NRT_(MemInfo_alloc|MemInfo_new|Allocate)")
"""Numba's functions that give memory to arrays."""


def _counts(library: codegen.CodeLibrary) -> bool:
    """Whether a function counts references. Those of Numba itself count where they make an array."""
    return library.counts if isinstance(library, (_Part, _Whole)) else _MAKES.search(library.get_llvm_str()) is not None


@register_pass(mutates_CFG=True, analysis_only=False)
class _LowerPart(_Lowering):
    """Lowering into a :class:`_Part`."""

    _name = "asyncdali_lower_part"

    def prepared(self, state: compiler.StateDict) -> codegen.CodeLibrary:
        state.library = _Part(_codegen(), state.func_id.func_qualname)
        state.targetctx.get_executable = _no_executable
        return state.library


@register_pass(mutates_CFG=True, analysis_only=False)
class _LowerKernel(_Lowering):
    """Lowering into a C function that needs nothing of Python."""

    _name = "asyncdali_lower_kernel"

    def prepared(self, state: compiler.StateDict) -> codegen.CodeLibrary:
        state.library = _codegen().create_library(state.func_id.func_qualname)
        state.library.enable_object_caching()  # for its object code
        state.targetctx.create_cfunc_wrapper = partial(_create_c_function, state.targetctx)
        return state.library


FAILED = -(1 << 62)
"""The result of a kernel in which Numba raises an exception. Kernels raise none; Numba's own wrapper would print it, with the GIL."""


def _create_c_function(context: Any, library: Any, description: Any, env: Any, call_helper: Any) -> None:
    """Add the C function of a kernel to its library."""
    module = context.create_module("c_function")
    convention = context.call_conv
    kernel = ir.Function(module, convention.get_function_type(description.restype, description.argtypes), description.llvm_func_name)
    result = context.get_value_type(description.restype)
    kind = ir.FunctionType(result, [context.get_value_type(kind) for kind in description.argtypes])
    function = ir.Function(module, kind, description.llvm_cfunc_wrapper_name)
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    status, out = convention.call_function(
        builder, kernel, description.restype, description.argtypes, function.args, attrs=("noinline",)
    )  # fmt: skip
    builder.ret(builder.select(status.is_error, ir.Constant(result, FAILED), out) if isinstance(result, ir.IntType) else out)
    library.add_ir_module(module)


def _no_executable(library: Any, fndesc: Any, env: Any) -> Any:
    return _dynfunc.make_function(fndesc.lookup_module(), fndesc.qualname.split(".")[-1], "", 0, env, (library,))


class KernelCompiler(compiler.CompilerBase):
    """The compiler pipeline of kernels, which are called by address."""

    lowering: type = _LowerKernel

    def __init__(self, typingctx: object, *arguments: object):
        super().__init__(_remembering(typingctx), *arguments)

    def define_pipelines(self) -> list[PassManager]:
        manager = PassManager("kernel")
        for kind in (
            lowering.Translate,
            untyped_passes.FixupArgs,
            untyped_passes.RewriteSemanticConstants,
            untyped_passes.DeadBranchPrune,
            lowering.Rewrites,
            untyped_passes.InlineInlinables,
            untyped_passes.DeadBranchPrune,
            lowering.SingleAssignments,
            untyped_passes.DeadBranchPrune,
            typed_passes.NopythonTypeInference,
            lowering.StripPhis,
            lowering.Legal,
            typed_passes.AnnotateTypes,
            self.lowering,
            typed_passes.NoPythonBackend,
        ):
            manager.add_pass(kind, kind.__name__)
        manager.finalize()
        return [manager]


class HelperCompiler(KernelCompiler):
    """The compiler pipeline of helpers, which are compiled into kernels."""

    lowering = _LowerPart
