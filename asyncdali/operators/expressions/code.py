"""The code of a program: one loop over elements, in which every operation is a few instructions on registers.

``kernel(table) -> status`` computes ``rows`` times ``count`` elements; the table is a PROGRAM (``expressions_tables``). Within a row an
input has either one element for each output element, or one for all of them. The code is specialised for this choice (`repeated`). Values
that depend only on inputs with one element are computed once per row.

Status: 0, or DIVIDED_BY_ZERO.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from ...batch import storage_dtype
from ...compiled.machine_code import MachineCode
from ...types import DALIDataType
from .expressions_tables import PROGRAM
from .float_functions import DOUBLE_FUNCTIONS, FUNCTIONS
from .function_probes import same_as_library
from .llvm_compiler import float_lanes, library_function, machine_code, new_module, prefer_long_vectors
from .loops import loop
from .programs import ExpressionProgram, InputOperand, Literal, Operand
from .types import FLOATS, LIBRARY_NAMES, SIGNED, UNSIGNED, promote, promote_all
from .values import Value

DIVIDED_BY_ZERO = 1

_T = DALIDataType
_I1, _I8, _I32, _I64 = ir.IntType(1), ir.IntType(8), ir.IntType(32), ir.IntType(64)
_F32, _F64, _HALF = ir.FloatType(), ir.DoubleType(), ir.HalfType()
_BITS = {**SIGNED, **UNSIGNED}
_BLOCK = 512
"""Elements that are recomputed with the C library's functions, if a vectorised function does not cover one of them."""
_COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def _register(kind: DALIDataType) -> ir.Type:
    """The type in which a value is computed."""
    if kind in FLOATS:
        return _F64 if kind is _T.FLOAT64 else _F32
    return ir.IntType(_BITS[kind])


def _memory(kind: DALIDataType) -> ir.Type:
    return {_T.BOOL: _I8, _T.FLOAT16: _HALF}.get(kind) or _register(kind)


class _Emitter:
    """Emits the instructions of one operation at the position of `builder`."""

    def __init__(self, builder: ir.IRBuilder, module: ir.Module):
        self.builder = builder
        self.module = module
        self.zero_divisor: ir.Value | None = None
        """Whether this element was divided by zero; None if there is no division."""
        self.vectorised = False
        """Whether to use ``float_functions`` for functions of float32."""
        self.beyond: ir.Value | None = None
        """Whether such a function does not cover this element; None if there was no such function."""

    # --- values

    def load(self, pointer: ir.Value, kind: DALIDataType) -> ir.Value:
        value = self.builder.load(pointer)
        if kind is _T.BOOL:
            return self.builder.icmp_unsigned("!=", value, _I8(0))
        return self.builder.fpext(value, _F32) if kind is _T.FLOAT16 else value

    def store(self, value: ir.Value, pointer: ir.Value, kind: DALIDataType) -> None:
        if kind is _T.BOOL:
            value = self.builder.zext(value, _I8)
        elif kind is _T.FLOAT16:
            value = self.builder.fptrunc(value, _HALF)
        self.builder.store(value, pointer)

    def literal(self, literal: Literal) -> ir.Value:
        return self.number(literal.value, literal.dtype)

    def number(self, value: Any, kind: DALIDataType) -> ir.Value:
        if kind in FLOATS:
            return ir.Constant(_register(kind), float(value))
        bits = _BITS[kind]
        value = int(value) & ((1 << bits) - 1)
        return ir.Constant(_register(kind), value - (1 << bits) if bits > 1 and value >> (bits - 1) else value)

    def cast(self, value: ir.Value, source: DALIDataType, target: DALIDataType) -> ir.Value:
        """Convert a value to the type `source` is promoted to."""
        builder, register = self.builder, _register(target)
        if source == target or (source is _T.FLOAT16 and target is _T.FLOAT):
            return value
        if source in FLOATS:
            return builder.fpext(value, register) if target is _T.FLOAT64 else self.rounded(value, target)
        if target in FLOATS:
            made = builder.sitofp(value, register) if source in SIGNED else builder.uitofp(value, register)
            return self.rounded(made, target)
        if _BITS[source] > _BITS[target]:
            return builder.trunc(value, register)
        if _BITS[source] == _BITS[target]:
            return value
        return builder.sext(value, register) if source in SIGNED else builder.zext(value, register)

    def rounded(self, value: ir.Value, kind: DALIDataType) -> ir.Value:
        """Round a float32 value to the nearest float16, if the type is float16."""
        if kind is not _T.FLOAT16:
            return value
        return self.builder.fpext(self.builder.fptrunc(value, _HALF), _F32)

    # --- operations

    def operation(self, name: str, values: Sequence[ir.Value], kinds: Sequence[DALIDataType], result: DALIDataType) -> ir.Value:
        """The result of an operation on `values` of types `kinds`, in type `result`."""
        if name in _COMPARE:
            return self._compare(_COMPARE[name], values, kinds)
        if name in ("invert", "neg", "abs"):
            return self._unary(name, values[0], result)
        if name == "clamp" or name in ("min", "max"):
            kind = promote_all(kinds)
            return self._choose(name, [self.cast(value, own, kind) for value, own in zip(values, kinds)], kind)
        if name == "mod" and result is _T.FLOAT and not all(kind in FLOATS for kind in kinds):
            # C++ computes the remainder of an integer and a float in double precision, without rounding the integer. So does this code.
            operands = [self.cast(value, own, _T.FLOAT64) for value, own in zip(values, kinds)]
            return self.builder.fptrunc(self._float(name, operands), _F32)
        operands = [self.cast(value, own, result) for value, own in zip(values, kinds)]
        if result in FLOATS:
            return self.rounded(self._float(name, operands), result)
        return self._integer(name, operands, result)

    def _unary(self, name: str, value: ir.Value, kind: DALIDataType) -> ir.Value:
        builder = self.builder
        if name == "invert":
            return builder.not_(value)
        negative = builder.fneg(value) if kind in FLOATS else builder.neg(value)
        if name == "neg":
            return negative
        if kind in UNSIGNED:
            return value
        return builder.select(self._less(value, self.number(0, kind), kind), negative, value)  # -0.0 is kept, as in DALI.

    def _less(self, a: ir.Value, b: ir.Value, kind: DALIDataType) -> ir.Value:
        if kind in FLOATS:
            return self.builder.fcmp_ordered("<", a, b)
        return self.builder.icmp_signed("<", a, b) if kind in SIGNED else self.builder.icmp_unsigned("<", a, b)

    def _choose(self, name: str, values: list[ir.Value], kind: DALIDataType) -> ir.Value:
        """The result for unordered operands: the second of two numbers; with `clamp` the number itself."""
        select = self.builder.select
        a, b = values[:2]
        if name == "min":
            return select(self._less(a, b, kind), a, b)
        if name == "max":
            return select(self._less(b, a, kind), a, b)
        raised = select(self._less(a, b, kind), b, a)
        return select(self._less(values[2], raised, kind), values[2], raised)

    def _compare(self, symbol: str, values: Sequence[ir.Value], kinds: Sequence[DALIDataType]) -> ir.Value:
        """Compare integers by their mathematical value, and an integer and a float in the float's type."""
        builder, kind = self.builder, promote(*kinds)
        unsigned_wide = kinds[0] is _T.UINT64 or kinds[1] is _T.UINT64
        if kind in SIGNED and unsigned_wide:
            return self._compare_wide(symbol, values, kinds)
        a, b = (self.cast(value, own, kind) for value, own in zip(values, kinds))
        if kind in FLOATS:
            return builder.fcmp_unordered("!=", a, b) if symbol == "!=" else builder.fcmp_ordered(symbol, a, b)
        return builder.icmp_signed(symbol, a, b) if kind in SIGNED else builder.icmp_unsigned(symbol, a, b)

    def _compare_wide(self, symbol: str, values: Sequence[ir.Value], kinds: Sequence[DALIDataType]) -> ir.Value:
        """Compare UINT64 with a signed type: a negative number is less than every UINT64."""
        builder = self.builder
        a, b = (self.cast(value, own, _T.UINT64 if own is _T.UINT64 else _T.INT64) for value, own in zip(values, kinds))
        left_signed = kinds[0] in SIGNED
        negative = builder.icmp_signed("<", a if left_signed else b, _I64(0))
        if_negative = {"==": False, "!=": True, "<": left_signed, "<=": left_signed, ">": not left_signed, ">=": not left_signed}[symbol]
        return builder.select(negative, _I1(int(if_negative)), builder.icmp_unsigned(symbol, a, b))

    def _float(self, name: str, values: list[ir.Value]) -> ir.Value:
        builder, kind = self.builder, values[0].type
        if name in ("add", "sub", "mul"):
            return getattr(builder, f"f{name}")(*values)
        if name in ("div", "fdiv"):
            return builder.fdiv(*values)
        if name in ("sqrt", "fabs", "floor", "ceil"):
            return builder.call(self.module.declare_intrinsic(f"llvm.{name}", [kind]), values)
        if name == "rsqrt":
            return builder.fdiv(ir.Constant(kind, 1.0), self._float("sqrt", values))
        name = LIBRARY_NAMES.get(name, name)
        if self.vectorised and kind == _F32 and name in FUNCTIONS and same_as_library(name):
            result, beyond = FUNCTIONS[name](*(Value(builder, value) for value in values))
            self.beyond = beyond.raw if self.beyond is None else builder.or_(self.beyond, beyond.raw)
            return result.raw
        signature = ir.FunctionType(kind, [kind] * len(values))
        return builder.call(library_function(self.module, name + ("f" if kind == _F32 else ""), signature), values)

    def _integer(self, name: str, values: list[ir.Value], kind: DALIDataType) -> ir.Value:
        builder = self.builder
        a, b = values
        if name == "mul" and kind is _T.BOOL:
            return builder.and_(a, b)
        if name in ("fdiv", "mod"):
            return self._divide(name, a, b, kind)
        if name in ("lshift", "rshift"):
            return self._shift(name, a, b, kind)
        if name == "pow":
            return self._power(a, b, kind)
        return getattr(builder, {"and": "and_", "or": "or_"}.get(name, name))(a, b)

    def _divide(self, name: str, a: ir.Value, b: ir.Value, kind: DALIDataType) -> ir.Value:
        """Division towards zero; the remainder has the sign of `a`. The smallest number divided by -1 wraps (the processor would trap)."""
        builder = self.builder
        zero = builder.icmp_unsigned("==", b, self.number(0, kind))
        self.zero_divisor = zero if self.zero_divisor is None else builder.or_(self.zero_divisor, zero)
        one = self.number(1, kind)
        if kind in UNSIGNED:
            divisor = builder.select(zero, one, b)
            return builder.udiv(a, divisor) if name == "fdiv" else builder.urem(a, divisor)
        minus = builder.icmp_signed("==", b, self.number(-1, kind))
        divisor = builder.select(builder.or_(zero, minus), one, b)
        if name == "mod":
            return builder.srem(a, divisor)
        return builder.select(minus, builder.neg(a), builder.sdiv(a, divisor))

    def _shift(self, name: str, a: ir.Value, count: ir.Value, kind: DALIDataType) -> ir.Value:
        """Shifts like C on x86: narrow types are shifted as 32-bit integers; only the lowest 5 bits of the count are used (of 64 bits:
        6)."""
        builder = self.builder
        bits = 64 if _BITS[kind] == 64 else 32
        wide = {(True, 32): _T.INT32, (True, 64): _T.INT64, (False, 32): _T.UINT32, (False, 64): _T.UINT64}[(kind in SIGNED, bits)]
        value, count = self.cast(a, kind, wide), builder.and_(self.cast(count, kind, wide), self.number(bits - 1, wide))
        if name == "lshift":
            shifted = builder.shl(value, count)
        else:
            shifted = builder.ashr(value, count) if kind in SIGNED else builder.lshr(value, count)
        return builder.icmp_unsigned("!=", shifted, self.number(0, wide)) if kind is _T.BOOL else self.cast(shifted, wide, kind)

    def _power(self, base: ir.Value, exponent: ir.Value, kind: DALIDataType) -> ir.Value:
        """Power by repeated squaring, with wrap-around; 0 for negative exponents."""
        if isinstance(exponent, ir.Constant) and 0 <= int(exponent.constant) <= 16:
            return self._small_power(base, int(exponent.constant), kind)
        name = f"power_{kind.name}"
        function = self.module.globals.get(name) or _power_function(self.module, name, kind)
        return self.builder.call(function, [base, exponent])

    def _small_power(self, base: ir.Value, exponent: int, kind: DALIDataType) -> ir.Value:
        result = self.number(1, kind)
        while exponent:
            result = self.builder.mul(result, base) if exponent & 1 else result
            base, exponent = self.builder.mul(base, base), exponent >> 1
        return result


def _power_function(module: ir.Module, name: str, kind: DALIDataType) -> ir.Function:
    register = _register(kind)
    function = ir.Function(module, ir.FunctionType(register, [register, register]), name)
    function.linkage = "internal"
    entry, head, body, end = (function.append_basic_block(label) for label in ("entry", "head", "body", "end"))
    builder, zero, one = ir.IRBuilder(entry), register(0), register(1)
    builder.branch(head)
    builder.position_at_end(head)
    result, base, exponent = builder.phi(register), builder.phi(register), builder.phi(register)
    more = builder.icmp_signed(">", exponent, zero) if kind in SIGNED else builder.icmp_unsigned("!=", exponent, zero)
    builder.cbranch(more, body, end)
    builder.position_at_end(body)
    odd = builder.icmp_unsigned("!=", builder.and_(exponent, one), zero)
    product = builder.select(odd, builder.mul(result, base), result)
    square, rest = builder.mul(base, base), builder.lshr(exponent, one)
    builder.branch(head)
    result.add_incoming(one, entry)
    base.add_incoming(function.args[0], entry)
    exponent.add_incoming(function.args[1], entry)
    result.add_incoming(product, body)
    base.add_incoming(square, body)
    exponent.add_incoming(rest, body)
    builder.position_at_end(end)
    if kind in SIGNED:
        builder.ret(builder.select(builder.icmp_signed("<", function.args[1], zero), zero, result))
    else:
        builder.ret(result)
    return function


# ------------------------------------------------------------------------------------------------------------------- the loops


class _Row:
    """The function that computes one row. Its arguments: the output, the inputs, the count, and where to record a zero divisor."""

    def __init__(self, module: ir.Module, program: ExpressionProgram, kinds: Sequence[DALIDataType], repeated: int):
        self.program, self.kinds, self.repeated = program, kinds, repeated
        self.types = program.types(kinds)
        pointers = [_memory(kind).as_pointer() for kind in (self.types[-1], *kinds)]
        self.function = ir.Function(module, ir.FunctionType(ir.VoidType(), [*pointers, _I64, _I8.as_pointer()]), "row")
        self.function.linkage = "internal"
        self.function.attributes.add("alwaysinline")
        for argument in (*self.function.args[: len(pointers)], self.function.args[-1]):
            argument.add_attribute("noalias")
        self.output, *self.inputs = self.function.args[: len(pointers)]
        self.count, self.flag = self.function.args[-2:]
        self.builder = ir.IRBuilder(self.function.append_basic_block("entry"))
        self.emitter = _Emitter(self.builder, module)
        self._fixed_inputs: dict[int, ir.Value] = {}
        self._fixed_results: dict[int, ir.Value] = {}
        self._emit()

    def _emit(self) -> None:
        fixed = self._fixed()
        builder = self.builder
        work, end = self.function.append_basic_block("work"), self.function.append_basic_block("end")
        builder.cbranch(builder.icmp_signed(">", self.count, _I64(0)), work, end)  # An empty row has no division by zero.
        builder.position_at_end(work)
        for k, kind in enumerate(self.kinds):
            if self.repeated >> k & 1:
                self._fixed_inputs[k] = self.emitter.load(self.inputs[k], kind)
        for index in sorted(fixed):
            self._fixed_results[index] = self._instruction(index, self._fixed_inputs, self._fixed_results)
        self._note_zero()
        called = self._called_functions()
        self.long_vectors = any(name in FUNCTIONS and same_as_library(name) for name in called)
        if self.long_vectors:
            self._blocks(0 if called & DOUBLE_FUNCTIONS else float_lanes())
        else:
            loop(builder, self.count, self._element)
        builder.branch(end)
        builder.position_at_end(end)
        builder.ret_void()

    def _called_functions(self) -> set[str]:
        """The functions of float32 that are called for each element."""
        return {
            LIBRARY_NAMES.get(item.name, item.name)
            for index, item in enumerate(self.program.instructions)
            if index not in self._fixed_results and self.types[index] in FLOATS and self.types[index] is not _T.FLOAT64
        }

    def _blocks(self, lanes: int) -> None:
        """Compute the row in blocks: vectorised, then again for blocks with an element that the vectorised form does not cover.

        `lanes`: elements that are computed at a time, see ``loops``.
        """
        builder, emitter = self.builder, self.emitter
        with builder.goto_entry_block():  # Elsewhere, it would allocate stack for every row.
            beyond = builder.alloca(_I8)
        blocks = builder.sdiv(builder.add(self.count, _I64(_BLOCK - 1)), _I64(_BLOCK))

        def block(number: ir.Value) -> None:
            first = builder.mul(number, _I64(_BLOCK))
            left = builder.sub(self.count, first)
            count = builder.select(builder.icmp_signed("<", left, _I64(_BLOCK)), left, _I64(_BLOCK))

            def element(index: ir.Value) -> None:
                self._element(builder.add(first, index))
                if emitter.beyond is not None:
                    builder.store(builder.or_(builder.load(beyond), builder.zext(emitter.beyond, _I8)), beyond)
                    emitter.beyond = None

            builder.store(_I8(0), beyond)
            emitter.vectorised = True
            loop(builder, count, element, lanes)
            emitter.vectorised = False
            with builder.if_then(builder.icmp_unsigned("!=", builder.load(beyond), _I8(0))):
                loop(builder, count, element)

        loop(builder, blocks, block)

    def _fixed(self) -> set[int]:
        """Emit the instructions whose results are equal for all elements of a row."""
        found: set[int] = set()
        for index, item in enumerate(self.program.instructions):
            if all(self._is_fixed(operand, found) for operand in item.operands):
                found.add(index)
        return found

    def _is_fixed(self, operand: Operand, found: set[int]) -> bool:
        if isinstance(operand, InputOperand):
            return bool(self.repeated >> operand.index & 1)
        return isinstance(operand, Literal) or operand.index in found

    def _element(self, index: ir.Value) -> None:
        builder, emitter = self.builder, self.emitter
        inputs, results = dict(self._fixed_inputs), dict(self._fixed_results)
        for k, kind in enumerate(self.kinds):
            if k not in inputs:
                inputs[k] = emitter.load(builder.gep(self.inputs[k], [index]), kind)
        for k in range(len(self.program.instructions)):
            if k not in results:
                results[k] = self._instruction(k, inputs, results)
        emitter.store(results[len(results) - 1], builder.gep(self.output, [index]), self.types[-1])
        self._note_zero()

    def _note_zero(self) -> None:
        zero, self.emitter.zero_divisor = self.emitter.zero_divisor, None
        if zero is not None:
            builder = self.builder
            builder.store(builder.or_(builder.load(self.flag), builder.zext(zero, _I8)), self.flag)

    def _instruction(self, index: int, inputs: dict[int, ir.Value], results: dict[int, ir.Value]) -> ir.Value:
        item = self.program.instructions[index]
        values, kinds = [], []
        for operand in item.operands:
            if isinstance(operand, Literal):
                values.append(self.emitter.literal(operand))
                kinds.append(operand.dtype)
            elif isinstance(operand, InputOperand):
                values.append(inputs[operand.index])
                kinds.append(self.kinds[operand.index])
            else:
                values.append(results[operand.index])
                kinds.append(self.types[operand.index])
        return self.emitter.operation(item.name, values, kinds, self.types[index])


def _kernel(module: ir.Module, name: str, row: _Row) -> None:
    function = ir.Function(module, ir.FunctionType(_I64, [_I64.as_pointer()]), name)
    if row.long_vectors:
        prefer_long_vectors(function)
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    table = function.args[0]

    def entry(k: int) -> ir.Value:
        return builder.load(builder.gep(table, [_I64(k)]))

    word, inputs = PROGRAM.word, len(row.kinds)
    rows, count, output = entry(word.rows), entry(word.count), entry(word.output)
    addresses = [entry(word.words + k) for k in range(inputs)]
    strides = [entry(word.words + inputs + k) for k in range(inputs)]
    flag = builder.alloca(_I8)
    builder.store(_I8(0), flag)
    pitch = builder.mul(count, _I64(storage_dtype(row.types[-1]).itemsize))

    def one(index: ir.Value) -> None:
        places = [builder.add(output, builder.mul(index, pitch))]
        places += [builder.add(address, builder.mul(index, stride)) for address, stride in zip(addresses, strides)]
        pointers = [builder.inttoptr(place, argument.type) for place, argument in zip(places, row.function.args)]
        builder.call(row.function, [*pointers, count, flag])

    loop(builder, rows, one)
    builder.ret(builder.zext(builder.load(flag), _I64))


def code_of(program: ExpressionProgram, kinds: Sequence[DALIDataType], repeated: int, symbol: str) -> MachineCode:
    """The kernel of a program for inputs of types `kinds`; bit k of `repeated`: input k has one element per row.

    RuntimeError if the program cannot take these types.
    """
    module = new_module(symbol)
    _kernel(module, symbol, _Row(module, program, kinds, repeated))
    return machine_code(module, symbol)
