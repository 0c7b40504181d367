"""Numba's passes without work that kernels do not need: they have no ``try``, no ``with``, no dictionaries and no generators.

More than half of the time of a cold kernel goes to Numba's own Python code, and not to LLVM. The passes here make the same LLVM code as
Numba's, except that nothing is counted:

* variables have no ends of life: Numba inserts an instruction for each, which for a number stores zero;
* sets of living variables are not computed again after each pass, because nothing reads them;
* the meaning of an operator for given types is looked up once;
* an instruction is not formatted as text before it is translated.

Functions that make arrays need the counts. ``compiler.py`` finds them and uses Numba's own passes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar

from llvmlite.ir import Value
from numba.core import interpreter, ir, ir_utils, lowering, rewrites, ssa, transforms, typed_passes, types, untyped_passes
from numba.core.compiler import StateDict
from numba.core.compiler_machinery import register_pass
from numba.core.errors import LoweringError, UnsupportedError, new_error_context  # type: ignore[attr-defined]

_LEFT_OUT = {"peep_hole_delete_with_exit", "peep_hole_fuse_dict_add_updates"}
"""Changes of the code of ``with`` and of dictionaries, which kernels do not have."""


class Lower(lowering.Lower):
    """Numba's translation of a function into LLVM code."""

    known: ClassVar[dict[tuple[Any, ...], Any]] = {}
    """The signature of each operator for the types of its operands."""

    @functools.cached_property
    def _disable_sroa_like_opt(self) -> bool:
        return bool(super()._disable_sroa_like_opt)  # Numba asks for each variable

    def lower_block(self, block: ir.Block) -> None:
        self.pre_block(block)
        try:
            for instruction in block.body:
                self.loc = instruction.loc
                self.lower_inst(instruction)
        except Exception:
            at = self.loc
            error = functools.partial(LoweringError, loc=at)
            with new_error_context('lowering "{instruction}" at {at}', instruction=instruction, at=at, errcls_=error):
                raise
        self.post_block(block)

    def lower_inst(self, inst: ir.Stmt) -> None:
        if type(inst) is not ir.Assign or type(inst.value) is ir.Arg:
            super().lower_inst(inst)
            return
        self.debuginfo.mark_location(self.builder, self.loc.line)
        name = inst.target.name
        self.storevar(self.lower_assign(self.typeof(name), inst), name)

    def storevar(self, value: Value, name: str, argidx: int | None = None) -> None:
        if argidx is not None or name in self._singly_assigned_vars:
            super().storevar(value, name, argidx)
        else:
            self.builder.store(value, self.getvar(name))

    def lower_binop(self, resty: types.Type, expr: ir.Expr, op: object) -> Value:
        if expr.static_lhs is not ir.UNDEFINED or expr.static_rhs is not ir.UNDEFINED:
            return super().lower_binop(resty, expr, op)
        context, builder, signature = self.context, self.builder, self.fndesc.calltypes[expr]
        operands = [
            context.cast(builder, self.loadvar(var.name), self.typeof(var.name), kind)
            for var, kind in zip((expr.lhs, expr.rhs), signature.args, strict=True)
        ]
        operator = context.typing_context.resolve_value_type(op)
        found = self.known.get((op, signature.args))
        if found is None:
            found = self.known[op, signature.args] = operator.get_call_type(context.typing_context, signature.args, {})
        result = context.get_function(operator, found)(builder, operands)
        return context.cast(builder, result, signature.return_type, resty)


class _Interpreter(interpreter.Interpreter):
    def post_process(self, peepholes: list[Callable[[ir.FunctionIR], ir.FunctionIR]], func_ir: ir.FunctionIR) -> ir.FunctionIR:
        return super().post_process([found for found in peepholes if found.__name__ not in _LEFT_OUT], func_ir)


@register_pass(mutates_CFG=True, analysis_only=False)
class Translate(untyped_passes.TranslateByteCode):
    """Numba's instructions from Python's."""

    _name = "asyncdali_translate"

    def run_pass(self, state: StateDict) -> bool:
        state.func_ir = _Interpreter(state.func_id).interpret(state.bc)
        if state.func_ir.is_generator:
            raise UnsupportedError(f"{state.func_id.func_qualname} is a generator, which kernels cannot call", loc=state.func_ir.loc)
        state.func_ir.blocks = transforms.canonicalize_cfg(state.func_ir.blocks)
        return True


@register_pass(mutates_CFG=True, analysis_only=False)
class Rewrites(untyped_passes.GenericRewrites):
    """Constant indices, which Numba's rewrites find before types are known."""

    _name = "asyncdali_rewrites"

    def run_pass(self, state: StateDict) -> bool:
        blocks = state.func_ir.blocks
        for kind in rewrites.rewrite_registry.rewrites["before-inference"]:
            rewrite = kind(state)
            waiting = list(blocks.items())
            while waiting:
                key, block = waiting.pop()
                if rewrite.match(state.func_ir, block, state.typemap, state.calltypes):
                    blocks[key] = rewrite.apply()
                    waiting.append((key, blocks[key]))
        return True


@register_pass(mutates_CFG=False, analysis_only=False)
class SingleAssignments(untyped_passes.ReconstructSSA):
    """Each variable is assigned once."""

    _name = "asyncdali_single_assignments"

    def run_pass(self, state: StateDict) -> bool:
        state.func_ir = ssa.reconstruct_ssa(state.func_ir)
        state.func_ir._definitions = ir_utils.build_definitions(state.func_ir.blocks)
        return True


@register_pass(mutates_CFG=False, analysis_only=False)
class StripPhis(typed_passes.PreLowerStripPhis):
    """Numba's, without sets of living variables."""

    _name = "asyncdali_strip_phis"

    def run_pass(self, state: StateDict) -> bool:
        state.func_ir = self._strip_phi_nodes(state.func_ir)
        state.func_ir._definitions = ir_utils.build_definitions(state.func_ir.blocks)
        return True


@register_pass(mutates_CFG=False, analysis_only=True)
class Legal(typed_passes.IRLegalization):
    """Checks what is translated."""

    _name = "asyncdali_legal"

    def run_pass(self, state: StateDict) -> bool:
        ir_utils.enforce_no_phis(state.func_ir)
        return False
