"""Values of LLVM's intermediate code with Python's operators, which make formulas readable."""

from __future__ import annotations

from typing import Any, Union

from llvmlite import ir

F32, F64, I1, I32, I64 = ir.FloatType(), ir.DoubleType(), ir.IntType(1), ir.IntType(32), ir.IntType(64)
_FLOATS = (F32, F64)

Number = Union["Value", float, int]


class Value:
    """A float32, float64 or integer in a register. Each operation is one instruction and rounds separately: nothing is contracted."""

    __slots__ = ("builder", "raw")

    def __init__(self, builder: ir.IRBuilder, raw: ir.Value):
        self.builder, self.raw = builder, raw

    @property
    def is_float(self) -> bool:
        return self.raw.type in _FLOATS

    def number(self, other: Number) -> ir.Value:
        """Convert `other` to this value's type."""
        return other.raw if isinstance(other, Value) else ir.Constant(self.raw.type, float(other) if self.is_float else int(other))

    def _made(self, raw: ir.Value) -> Value:
        return Value(self.builder, raw)

    def _binary(self, name: str, a: ir.Value, b: ir.Value) -> Value:
        return self._made(getattr(self.builder, f"f{name}" if self.is_float else name)(a, b))

    def __add__(self, other: Number) -> Value:
        return self._binary("add", self.raw, self.number(other))

    def __radd__(self, other: Number) -> Value:
        return self._binary("add", self.number(other), self.raw)

    def __sub__(self, other: Number) -> Value:
        return self._binary("sub", self.raw, self.number(other))

    def __rsub__(self, other: Number) -> Value:
        return self._binary("sub", self.number(other), self.raw)

    def __mul__(self, other: Number) -> Value:
        return self._binary("mul", self.raw, self.number(other))

    def __rmul__(self, other: Number) -> Value:
        return self._binary("mul", self.number(other), self.raw)

    def __truediv__(self, other: Number) -> Value:
        return self._made(self.builder.fdiv(self.raw, self.number(other)))

    def __rtruediv__(self, other: Number) -> Value:
        return self._made(self.builder.fdiv(self.number(other), self.raw))

    def __neg__(self) -> Value:
        return self._made(self.builder.fneg(self.raw) if self.is_float else self.builder.neg(self.raw))

    def __and__(self, other: Number) -> Value:
        return self._made(self.builder.and_(self.raw, self.number(other)))

    def __or__(self, other: Number) -> Value:
        return self._made(self.builder.or_(self.raw, self.number(other)))

    def __xor__(self, other: Number) -> Value:
        return self._made(self.builder.xor(self.raw, self.number(other)))

    def __lshift__(self, other: Number) -> Value:
        return self._made(self.builder.shl(self.raw, self.number(other)))

    def __rshift__(self, other: Number) -> Value:
        """Shift right, filling with copies of the sign."""
        return self._made(self.builder.ashr(self.raw, self.number(other)))

    def quotient(self, divisor: int) -> Value:
        """Integer division towards zero."""
        return self._made(self.builder.sdiv(self.raw, self.number(divisor)))

    def remainder(self, divisor: int) -> Value:
        """Integer remainder, with the sign of the dividend."""
        return self._made(self.builder.srem(self.raw, self.number(divisor)))

    def zero_shift(self, other: Number) -> Value:
        """Shift right, filling with zeros."""
        return self._made(self.builder.lshr(self.raw, self.number(other)))

    def _compared(self, symbol: str, other: Number) -> Value:
        if self.is_float:
            return self._made(self.builder.fcmp_ordered(symbol, self.raw, self.number(other)))
        return self._made(self.builder.icmp_signed(symbol, self.raw, self.number(other)))

    def __lt__(self, other: Number) -> Value:
        return self._compared("<", other)

    def __le__(self, other: Number) -> Value:
        return self._compared("<=", other)

    def __gt__(self, other: Number) -> Value:
        return self._compared(">", other)

    def __ge__(self, other: Number) -> Value:
        return self._compared(">=", other)

    def equals(self, other: Number) -> Value:
        return self._compared("==", other)

    def below(self, other: Number) -> Value:
        """Compare integers as unsigned numbers."""
        return self._made(self.builder.icmp_unsigned("<", self.raw, self.number(other)))

    def negated(self) -> Value:
        """Negate a truth value."""
        return self._made(self.builder.not_(self.raw))

    def choose(self, yes: Value, no: Number) -> Value:
        """Select `yes` if this truth value is true, else `no`."""
        return self._made(self.builder.select(self.raw, yes.raw, yes.number(no)))

    # --- other types

    def bits(self) -> Value:
        """The bits of a float, as an integer."""
        return self._made(self.builder.bitcast(self.raw, I64 if self.raw.type == F64 else I32))

    def as_float(self) -> Value:
        """The float with these bits."""
        return self._made(self.builder.bitcast(self.raw, F64 if self.raw.type == I64 else F32))

    def double(self) -> Value:
        """Convert to float64."""
        return self._made(self.builder.fpext(self.raw, F64) if self.is_float else self.builder.sitofp(self.raw, F64))

    def single(self) -> Value:
        """Convert to float32, rounded."""
        return self._made(self.builder.fptrunc(self.raw, F32) if self.is_float else self.builder.sitofp(self.raw, F32))

    def whole(self) -> Value:
        """Convert a float to int32, truncated."""
        return self._made(self.builder.fptosi(self.raw, I32))

    def wide(self) -> Value:
        """Extend an int32 to 64 bits."""
        return self._made(self.builder.sext(self.raw, I64))

    def narrow(self) -> Value:
        """The lower half of an int64."""
        return self._made(self.builder.trunc(self.raw, I32))

    # --- functions

    def _intrinsic(self, name: str, *more: ir.Value) -> Value:
        kind, values = self.raw.type, [self.raw, *more]
        function = self.builder.module.declare_intrinsic(f"llvm.{name}", [kind], ir.FunctionType(kind, [kind] * len(values)))
        return self._made(self.builder.call(function, values))

    def magnitude(self) -> Value:
        return self._intrinsic("fabs")

    def root(self) -> Value:
        return self._intrinsic("sqrt")

    def with_sign_of(self, other: Value) -> Value:
        return self._intrinsic("copysign", other.raw)

    def fused(self, factor: Number, term: Number) -> Value:
        """``self * factor + term``, rounded once."""
        return self._intrinsic("fma", self.number(factor), self.number(term))


def looked_up(index: Value, name: str, table: list[Any], kind: ir.Type) -> Value:
    """An element of a constant table; `name` is the table's in the module, `index` an integer within it."""
    builder = index.builder
    known = builder.module.globals.get(name)
    if known is None:
        known = ir.GlobalVariable(builder.module, ir.ArrayType(kind, len(table)), name)
        known.global_constant, known.linkage = True, "internal"
        known.initializer = ir.Constant(known.value_type, [ir.Constant(kind, element) for element in table])
    place = builder.zext(index.raw, I64) if index.raw.type == I32 else index.raw
    return Value(builder, builder.load(builder.gep(known, [I64(0), place])))
