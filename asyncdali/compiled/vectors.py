"""Vectors with a fixed number of lanes as values in kernels, for loops that the compiler does not vectorise.

``lanes("float32", 16)`` gives the functions of one kind of vector. Its values support ``+ - * / & | ^ << >>`` and comparisons. All work
lane by lane, without contraction. LLVM maps a vector to the processor's registers: 16 floats are one register of AVX-512, two of AVX2, four
of SSE. Comparisons give vectors of truth values for ``choose``.

Kernels that are written as LLVM IR use the functions ``..._ir``, and :class:`IntegerVectors` for operations that LLVM does not find in
loops: sums of products of pairs, packing, shuffles within 128 bits.
"""

from __future__ import annotations

import operator
import platform
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from . import kinds
from .kinds import Vector, cgutils, from_dtype, intrinsic
from .target import processor_has

if TYPE_CHECKING:
    from numba.core.base import BaseContext

    from .kinds import Intrinsic

I8, I16, I32, I64 = (ir.IntType(bits) for bits in (8, 16, 32, 64))


@cache
def widest() -> int:
    """Bytes of the processor's vector registers: 64 with AVX-512, 32 with AVX2, else 16."""
    return 64 if processor_has("avx512f") and processor_has("avx512bw") else 32 if processor_has("avx2") else 16


@cache
def is_x86() -> bool:
    """Whether x86 instructions may be used by name."""
    return platform.machine().lower() in ("x86_64", "amd64")


@cache
def native_bits() -> int:
    """Width of the widest x86 vectors of 16-bit integers for kernels; 0 on other processors."""
    return 8 * widest() if is_x86() else 0


_INTEGERS = {8: I8, 16: I16, 32: I32, 64: I64}


def element_ir(element: kinds.Number) -> ir.Type:
    """The LLVM type of a lane."""
    if element == kinds.boolean:
        return ir.IntType(1)
    if element.is_float:
        return ir.FloatType() if element.bitwidth == 32 else ir.DoubleType()
    return _INTEGERS[element.bitwidth]


def vector_ir(kind: Vector) -> ir.VectorType:
    """The LLVM type of a vector."""
    return ir.VectorType(element_ir(kind.element), kind.count)


def splat_ir(builder: ir.IRBuilder, value: ir.Value, count: int) -> ir.Value:
    """A vector with `value` in every lane."""
    kind = ir.VectorType(value.type, count)
    undefined = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(undefined, value, ir.Constant(I32, 0))
    return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(I32, count), [0] * count))


def load_ir(builder: ir.IRBuilder, address: ir.Value, kind: ir.VectorType) -> ir.Value:
    """A vector from any address (an integer)."""
    return builder.load(builder.inttoptr(address, kind.as_pointer()), align=1)


def store_ir(builder: ir.IRBuilder, value: ir.Value, address: ir.Value) -> None:
    """Store a vector at any address (an integer)."""
    builder.store(value, builder.inttoptr(address, value.type.as_pointer()), align=1)


def call_ir(builder: ir.IRBuilder, name: str, arguments: Sequence[ir.Value], result: ir.Type | None = None) -> ir.Value:
    """Call an LLVM intrinsic by its full name, for example ``llvm.sqrt.v8f32``."""
    kind = ir.FunctionType(result or arguments[0].type, [argument.type for argument in arguments])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), arguments)


def first_lanes_ir(builder: ir.IRBuilder, valid: ir.Value, count: int) -> ir.Value:
    """A mask of the first `valid` (int64) of `count` lanes."""
    kind = ir.VectorType(I64, count)
    return builder.icmp_signed("<", ir.Constant(kind, list(range(count))), splat_ir(builder, valid, count))


def load_some_ir(builder: ir.IRBuilder, address: ir.Value, valid: ir.Value, other: ir.Value) -> ir.Value:
    """The first `valid` lanes from memory, the others from the vector `other`. No other memory is read."""
    kind = other.type
    pointer, mask = builder.inttoptr(address, kind.as_pointer()), first_lanes_ir(builder, valid, kind.count)
    name = f"llvm.masked.load.v{kind.count}{_letter(kind.element)}.p0"
    function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(kind, [pointer.type, I32, mask.type, kind]), name)
    return builder.call(function, [pointer, I32(1), mask, other])


def store_some_ir(builder: ir.IRBuilder, value: ir.Value, address: ir.Value, valid: ir.Value) -> None:
    """Store the first `valid` lanes."""
    kind = value.type
    pointer, mask = builder.inttoptr(address, kind.as_pointer()), first_lanes_ir(builder, valid, kind.count)
    name = f"llvm.masked.store.v{kind.count}{_letter(kind.element)}.p0"
    function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(ir.VoidType(), [kind, pointer.type, I32, mask.type]), name)
    builder.call(function, [value, pointer, I32(1), mask])


def _letter(element: ir.Type) -> str:
    names = {ir.FloatType(): "f32", ir.DoubleType(): "f64"}
    return names.get(element) or f"i{element.width}"


def _largest_ir(builder: ir.IRBuilder, value: ir.Value, more: Callable[[ir.Value, ir.Value], ir.Value]) -> ir.Value:
    lanes_of = [builder.extract_element(value, I32(k)) for k in range(value.type.count)]
    while len(lanes_of) > 1:
        pairs = zip(lanes_of[::2], lanes_of[1::2])
        lanes_of = [builder.select(more(a, b), a, b) for a, b in pairs]
    return lanes_of[0]


def suffix_ir(kind: Vector) -> str:
    """The suffix of LLVM's names for this kind: ``v8f32``."""
    return f"v{kind.count}{'f' if kind.element.is_float else 'i'}{kind.element.bitwidth}"


def _picked(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, places: list[int]) -> ir.Value:
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(I32, len(places)), places))


def transposed_ir(builder: ir.IRBuilder, rows: list[ir.Value]) -> list[ir.Value]:
    """Transpose: the columns of a square of vectors, with at least 4 lanes.

    Squares of four are transposed within 128 bits, then squares of squares. Every step is one instruction of AVX and AVX-512.
    """
    count = len(rows)
    for pairs, order in (((0, 1), (2, 3)), (0, 4, 1, 5)), (((0, 2), (1, 3)), (0, 1, 4, 5)):
        low = [part + place % 4 + (count if place >= 4 else 0) for part in range(0, count, 4) for place in order]
        high = [place + 2 for place in low]
        turned = list(rows)
        for first in range(0, count, 4):
            made = []
            for a, b in pairs:
                x, y = rows[first + a], rows[first + b]
                made += [_picked(builder, x, y, low), _picked(builder, x, y, high)]
            turned[first : first + 4] = made
        rows = turned
    size = 4
    while size < count:
        upper = [c if not c & size else c - size + count for c in range(count)]
        lower = [c + size if not c & size else c + count for c in range(count)]
        turned = list(rows)
        for k in range(count):
            if not k & size:
                turned[k] = _picked(builder, rows[k], rows[k + size], upper)
                turned[k + size] = _picked(builder, rows[k], rows[k + size], lower)
        rows = turned
        size *= 2
    return rows


# ------------------------------------------------------------------------------------------------------------------ integers as IR


def constant(element: ir.Type, count: int, value: int) -> ir.Constant:
    """A constant vector of `count` equal elements."""
    return ir.Constant(ir.VectorType(element, count), [value] * count)


class IntegerVectors:
    """Writes operations on vectors of integers through an IR builder.

    A vector may be wider than the processor's, because LLVM splits it. Operations that are one instruction only on x86 are split here, and
    written out for other processors.
    """

    def __init__(self, builder: ir.IRBuilder):
        self.builder = builder

    def load(self, address: ir.Value, offset: ir.Value | int, element: ir.Type, count: int) -> ir.Value:
        """`count` elements at `address` + `offset` bytes (a number or a value), with any alignment."""
        return load_ir(self.builder, self._moved(address, offset), ir.VectorType(element, count))

    def store(self, value: ir.Value, address: ir.Value, offset: ir.Value | int) -> None:
        """Store a vector at `address` + `offset` bytes, with any alignment."""
        store_ir(self.builder, value, self._moved(address, offset))

    def _moved(self, address: ir.Value, offset: ir.Value | int) -> ir.Value:
        return self.builder.add(address, I64(offset) if isinstance(offset, int) else offset)

    def spread(self, value: ir.Value, count: int) -> ir.Value:
        """A vector of `count` times a scalar."""
        return splat_ir(self.builder, value, count)

    def pick(self, a: ir.Value, b: ir.Value, places: list[int]) -> ir.Value:
        """Select elements of `a` and `b`, numbered consecutively."""
        return _picked(self.builder, a, b, places)

    def cast(self, value: ir.Value, element: ir.Type) -> ir.Value:
        """The same bits as elements of another size."""
        bits = value.type.count * value.type.element.width
        return self.builder.bitcast(value, ir.VectorType(element, bits // element.width))

    def low(self, a: ir.Value, b: ir.Value) -> ir.Value:
        """Elements of the lower halves of `a` and `b` in turn, within each 128 bits (``punpckl``)."""
        return self._unpack(a, b, 0)

    def high(self, a: ir.Value, b: ir.Value) -> ir.Value:
        """The same for the upper halves (``punpckh``)."""
        return self._unpack(a, b, 1)

    def _unpack(self, a: ir.Value, b: ir.Value, half: int) -> ir.Value:
        count, lane = a.type.count, 128 // a.type.element.width
        places = []
        for start in range(0, count, lane):
            for k in range(start + half * lane // 2, start + (half + 1) * lane // 2):
                places += [k, count + k]
        return self.pick(a, b, places)

    def _in_parts(self, names: dict[int, str], result: ir.Type, *values: ir.Value) -> ir.Value | None:
        """An x86 instruction on parts of the vectors that fit it; None if there is none. Results have as many bits as `values`."""
        total = values[0].type.count * values[0].type.element.width
        width = min(native_bits(), total)
        if width == 0:
            return None
        parts, number = [], total // width
        for k in range(number):
            cut = []
            for value in values:
                size = value.type.count // number
                cut.append(value if number == 1 else self.pick(value, value, list(range(k * size, (k + 1) * size))))
            kind = ir.VectorType(result, width // result.width)
            function = self.builder.module.declare_intrinsic(names[width], (), ir.FunctionType(kind, [part.type for part in cut]))
            parts.append(self.builder.call(function, cut))
        while len(parts) > 1:
            parts = [self._joined(parts[k], parts[k + 1]) for k in range(0, len(parts), 2)]
        return parts[0]

    def _joined(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.pick(a, b, list(range(2 * a.type.count)))

    def pair_sums(self, pairs: ir.Value, first: int, second: int) -> ir.Value:
        """int16 pairs (a, b) to int32 ``first * a + second * b`` (``pmaddwd``)."""
        return self.pair_products(pairs, ir.Constant(pairs.type, [first, second] * (pairs.type.count // 2)))

    def pair_products(self, pairs: ir.Value, factors: ir.Value) -> ir.Value:
        """int16 pairs (a, b) and pairs of factors (c, d) to int32 ``c * a + d * b`` (``pmaddwd``)."""
        names = {128: "llvm.x86.sse2.pmadd.wd", 256: "llvm.x86.avx2.pmadd.wd", 512: "llvm.x86.avx512.pmaddw.d.512"}
        found = self._in_parts(names, I32, pairs, factors)
        if found is not None:
            return found
        count = pairs.type.count
        kind = ir.VectorType(I32, count // 2)
        products = []
        for odd in range(2):
            own, factor = (self.builder.sext(self.pick(x, x, list(range(odd, count, 2))), kind) for x in (pairs, factors))
            products.append(self.builder.mul(own, factor))
        return self.builder.add(*products)

    def packed_unsigned(self, a: ir.Value, b: ir.Value) -> ir.Value:
        """int16 of `a` and `b` saturated to unsigned bytes, elements of `a` first within each 128 bits (``packuswb``)."""
        names = {128: "llvm.x86.sse2.packuswb.128", 256: "llvm.x86.avx2.packuswb", 512: "llvm.x86.avx512.packuswb.512"}
        found = self._in_parts(names, I8, a, b)
        return found if found is not None else self._saturated(a, b, 0, 255)

    def packed(self, a: ir.Value, b: ir.Value) -> ir.Value:
        """Signed elements of `a` and `b` saturated to half the size, elements of `a` first within each 128 bits (``packss``)."""
        element = a.type.element
        short = ir.IntType(element.width // 2)
        if element.width == 32:
            names = {128: "llvm.x86.sse2.packssdw.128", 256: "llvm.x86.avx2.packssdw", 512: "llvm.x86.avx512.packssdw.512"}
        else:
            names = {128: "llvm.x86.sse2.packsswb.128", 256: "llvm.x86.avx2.packsswb", 512: "llvm.x86.avx512.packsswb.512"}
        found = self._in_parts(names, short, a, b)
        limit = 1 << (short.width - 1)
        return found if found is not None else self._saturated(a, b, -limit, limit - 1)

    def _saturated(self, a: ir.Value, b: ir.Value, least: int, most: int) -> ir.Value:
        """Elements of `a` and `b` clamped to bounds, in half the size, elements of `a` first within each 128 bits."""
        count, lane = a.type.count, 128 // a.type.element.width
        places: list[int] = []
        for start in range(0, count, lane):
            places += [*range(start, start + lane), *range(count + start, count + start + lane)]
        both = self.clamped(self.pick(a, b, places), least, most)
        return self.builder.trunc(both, ir.VectorType(ir.IntType(a.type.element.width // 2), 2 * count))

    def store_pixels(self, planes: Sequence[ir.Value], address: ir.Value) -> None:
        """Interleave three vectors of int16, saturated to bytes, and store the pixels."""
        count = planes[0].type.count
        two, third = self.packed_unsigned(planes[0], planes[1]), self.packed_unsigned(planes[2], planes[2])
        # Each 16 bytes hold eight pixels of one plane, then eight of the other.
        places = [16 * (pixel // 8) + pixel % 8 + (0, 8, 2 * count)[plane] for pixel in range(count) for plane in range(3)]
        self.store(self.pick(two, third, places[: 2 * count]), address, 0)
        self.store(self.pick(two, third, places[2 * count :]), address, 2 * count)

    def clamped(self, value: ir.Value, least: int, most: int) -> ir.Value:
        """Signed elements clamped to bounds."""
        element, count = value.type.element, value.type.count
        for name, bound in (("llvm.smax", least), ("llvm.smin", most)):
            function = self._binary(name, value.type)
            value = self.builder.call(function, [value, constant(element, count, bound)])
        return value

    def _binary(self, name: str, kind: ir.Type) -> ir.Function:
        return self.builder.module.declare_intrinsic(f"{name}.v{kind.count}i{kind.element.width}", (), ir.FunctionType(kind, [kind, kind]))

    def high_product(self, value: ir.Value, factor: int) -> ir.Value:
        """Upper halves of int16 products (``pmulhw``)."""
        count = value.type.count
        wide = ir.VectorType(I32, count)
        product = self.builder.mul(self.builder.sext(value, wide), constant(I32, count, factor))
        return self.builder.trunc(self.builder.lshr(product, constant(I32, count, 16)), value.type)


# ------------------------------------------------------------------------------------------------------------------ operators


def _is_float(kind: Vector) -> bool:
    return kind.element.is_float


def _signed(kind: Vector) -> bool:
    return kind.element.is_signed


ARITHMETIC: dict[Any, Callable[[Any, Vector, Any, Any], Any]] = {
    operator.add: lambda b, kind, x, y: b.fadd(x, y) if _is_float(kind) else b.add(x, y),
    operator.sub: lambda b, kind, x, y: b.fsub(x, y) if _is_float(kind) else b.sub(x, y),
    operator.mul: lambda b, kind, x, y: b.fmul(x, y) if _is_float(kind) else b.mul(x, y),
    operator.truediv: lambda b, kind, x, y: b.fdiv(x, y),
    operator.and_: lambda b, kind, x, y: b.and_(x, y),
    operator.or_: lambda b, kind, x, y: b.or_(x, y),
    operator.xor: lambda b, kind, x, y: b.xor(x, y),
    operator.lshift: lambda b, kind, x, y: b.shl(x, y),
    operator.rshift: lambda b, kind, x, y: b.ashr(x, y) if _signed(kind) else b.lshr(x, y),
}
COMPARISONS = {operator.lt: "<", operator.le: "<=", operator.gt: ">", operator.ge: ">=", operator.eq: "==", operator.ne: "!="}


def _compare_ir(builder: ir.IRBuilder, kind: Vector, symbol: str, x: ir.Value, y: ir.Value) -> ir.Value:
    if _is_float(kind):
        return builder.fcmp_unordered(symbol, x, y) if symbol == "!=" else builder.fcmp_ordered(symbol, x, y)
    return builder.icmp_signed(symbol, x, y) if _signed(kind) else builder.icmp_unsigned(symbol, x, y)


def lower_operation(builder: ir.IRBuilder, symbol: object, kind: Vector, x: ir.Value, y: ir.Value) -> ir.Value:
    """The result of an operator for vectors of one kind."""
    if symbol in COMPARISONS:
        return _compare_ir(builder, kind, COMPARISONS[symbol], x, y)
    return ARITHMETIC[symbol](builder, kind, x, y)


# ------------------------------------------------------------------------------------------------------------------ functions


def _convert_ir(builder: ir.IRBuilder, value: ir.Value, source: Vector, target: Vector) -> ir.Value:
    kind = vector_ir(target)
    if _is_float(source) and _is_float(target):
        same = source.element == target.element
        return value if same else (builder.fpext if target.element.bitwidth == 64 else builder.fptrunc)(value, kind)
    if _is_float(source):
        return (builder.fptosi if _signed(target) else builder.fptoui)(value, kind)
    if _is_float(target):
        return (builder.sitofp if _signed(source) else builder.uitofp)(value, kind)
    bits = 1 if source.element == kinds.boolean else source.element.bitwidth
    if bits < target.element.bitwidth:
        return (builder.sext if _signed(source) else builder.zext)(value, kind)
    return value if bits == target.element.bitwidth else builder.trunc(value, kind)


class Lanes:
    """The functions of vectors of `count` numbers of `dtype`, for kernels.

    ``load(address)``, ``store(address, v)``; the same for the first lanes only: ``load_some(address, valid, other)``,
    ``store_some(address, v, valid)``; ``splat(x)``, ``choose(mask, a, b)``, ``smaller(a, b)`` and ``larger(a, b)`` (`b` if one is NaN),
    ``largest(v)`` of the lanes, ``total(v)`` of integer lanes; for floats ``sqrt``, ``floor``, ``trunc``, ``absolute`` and ``fma(a, b,
    c)``, which rounds once.
    """

    def __init__(self, dtype: Any, count: int):
        self.kind = Vector(from_dtype(np.dtype(dtype)), count)
        self.bytes = np.dtype(dtype).itemsize * count
        self.count = count
        kind, shape, element = self.kind, vector_ir(self.kind), self.kind.element
        mask = Vector(kinds.boolean, count)
        name = suffix_ir(kind)

        def made(result: Any, arguments: tuple[Any, ...], lower: Callable[..., Any]) -> Any:
            def codegen(context: BaseContext, builder: ir.IRBuilder, sig: object, args: Sequence[ir.Value]) -> ir.Value:
                value = lower(builder, *args)
                return context.get_dummy_value() if result == kinds.void else value

            return function_of(result(*arguments), codegen)

        self.load = made(kind, (kinds.int64,), lambda b, at: load_ir(b, at, shape))
        self.store = made(kinds.void, (kinds.int64, kind), lambda b, at, v: store_ir(b, v, at))
        self.splat = made(kind, (element,), lambda b, x: splat_ir(b, x, count))
        self.choose = made(kind, (mask, kind, kind), lambda b, m, x, y: b.select(m, x, y))
        less, more = ("<", ">")
        self.smaller = made(kind, (kind, kind), lambda b, x, y: b.select(_compare_ir(b, kind, less, x, y), x, y))
        self.larger = made(kind, (kind, kind), lambda b, x, y: b.select(_compare_ir(b, kind, more, x, y), x, y))
        self.load_some = made(kind, (kinds.int64, kinds.int64, kind), load_some_ir)
        self.store_some = made(kinds.void, (kinds.int64, kind, kinds.int64), lambda b, at, v, valid: store_some_ir(b, v, at, valid))
        scalar = Vector(element, 1)
        self.largest = made(element, (kind,), lambda b, v: _largest_ir(b, v, lambda x, y: _compare_ir(b, scalar, ">", x, y)))
        if element.is_float:
            self.sqrt = made(kind, (kind,), lambda b, v: call_ir(b, f"llvm.sqrt.{name}", [v]))
            self.floor = made(kind, (kind,), lambda b, v: call_ir(b, f"llvm.floor.{name}", [v]))
            self.trunc = made(kind, (kind,), lambda b, v: call_ir(b, f"llvm.trunc.{name}", [v]))
            self.fma = made(kind, (kind, kind, kind), lambda b, x, y, z: call_ir(b, f"llvm.fma.{name}", [x, y, z]))
            self.absolute = made(kind, (kind,), lambda b, v: call_ir(b, f"llvm.fabs.{name}", [v]))
        else:
            self.total = made(element, (kind,), lambda b, v: call_ir(b, f"llvm.vector.reduce.add.{name}", [v], element_ir(element)))

    def converted(self, target: Lanes) -> Any:
        """``convert(v)`` from these lanes to those of `target`, as LLVM's conversions (floats to integers must be in range)."""
        source, to = self.kind, target.kind

        def codegen(context: BaseContext, builder: ir.IRBuilder, sig: object, args: Sequence[ir.Value]) -> ir.Value:
            return _convert_ir(builder, args[0], source, to)

        return function_of(to(source), codegen)

    def bits_as(self, target: Lanes) -> Any:
        """``view(v)``: the same bits as lanes of `target`, which are as wide."""
        to = target.kind

        def codegen(context: BaseContext, builder: ir.IRBuilder, sig: object, args: Sequence[ir.Value]) -> ir.Value:
            return builder.bitcast(args[0], vector_ir(to))

        return function_of(to(self.kind), codegen)


_BY_COUNT: dict[int, Callable[[Any, Callable[..., Any]], Callable[..., Any]]] = {
    1: lambda sig, code: lambda typingctx, a: (sig, code),
    2: lambda sig, code: lambda typingctx, a, b: (sig, code),
    3: lambda sig, code: lambda typingctx, a, b, c: (sig, code),
    4: lambda sig, code: lambda typingctx, a, b, c, d: (sig, code),
    5: lambda sig, code: lambda typingctx, a, b, c, d, e: (sig, code),
    6: lambda sig, code: lambda typingctx, a, b, c, d, e, f: (sig, code),
}


def function_of(sig: Any, codegen: Callable[..., Any]) -> Intrinsic:
    """A function for kernels with one signature, made of LLVM instructions by `codegen`. Arguments are converted to its types."""
    return intrinsic(_BY_COUNT[len(sig.args)](sig, codegen))


@cache
def lanes(dtype: str, count: int) -> Lanes:
    """The shared :class:`Lanes` of a kind."""
    return Lanes(np.dtype(dtype), count)


def _prefetch_ir(context: BaseContext, builder: ir.IRBuilder, sig: object, args: Sequence[ir.Value]) -> ir.Value:
    pointer = builder.inttoptr(args[0], ir.IntType(8).as_pointer())
    kind = ir.FunctionType(ir.VoidType(), [pointer.type, I32, I32, I32])
    builder.call(cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0"), [pointer, I32(0), I32(3), I32(1)])
    return context.get_dummy_value()


prefetch = function_of(kinds.void(kinds.int64), _prefetch_ir)
"""``prefetch(address)``: a hint that this cache line will be read. Any address is allowed."""
