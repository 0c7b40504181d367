"""Vectors of integers as LLVM IR, for the decoder's transform and colour conversion.

Numba knows no vectors, and LLVM finds in loops neither multiplications of pairs (``pmaddwd``) nor what shuffles within 128 bits can do. A
vector here may be wider than the processor's: LLVM cuts it. What has an instruction on x86 alone is cut here, and spelt out elsewhere.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from llvmlite import ir
from numba.core.registry import cpu_target

I1, I8, I16, I32, I64 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))


@cache
def native_bits() -> int:
    """Width of the widest x86 vectors of 16-bit integers that Numba compiles for; 0 on other processors."""
    triple, _, features = cpu_target.target_context.codegen().magic_tuple()
    if not triple.startswith(("x86_64", "amd64")):
        return 0
    known = features.split(",")
    return 512 if "+avx512bw" in known else 256 if "+avx2" in known else 128


def splat(element: ir.Type, count: int, value: int) -> ir.Constant:
    """A constant vector of `count` equal elements."""
    return ir.Constant(ir.VectorType(element, count), [value] * count)


class Vectors:
    """Writes vector operations through an IR builder."""

    def __init__(self, builder: ir.IRBuilder):
        self.builder = builder

    def load(self, address: ir.Value, offset: Any, element: ir.Type, count: int) -> ir.Value:
        """`count` elements at `address` + `offset` bytes (a number or a value), however aligned."""
        return self.builder.load(self._pointer(address, offset, ir.VectorType(element, count)), align=1)

    def store(self, value: ir.Value, address: ir.Value, offset: Any) -> None:
        self.builder.store(value, self._pointer(address, offset, value.type), align=1)

    def _pointer(self, address: ir.Value, offset: Any, kind: ir.Type) -> ir.Value:
        offset = I64(offset) if isinstance(offset, int) else offset
        return self.builder.inttoptr(self.builder.add(address, offset), kind.as_pointer())

    def spread(self, value: ir.Value, element: ir.Type, count: int) -> ir.Value:
        """A vector of `count` times a scalar."""
        kind = ir.VectorType(element, count)
        first = self.builder.insert_element(ir.Constant(kind, ir.Undefined), value, I32(0))
        return self.builder.shuffle_vector(first, ir.Constant(kind, ir.Undefined), splat(I32, count, 0))

    def pick(self, a: ir.Value, b: ir.Value, places: list[int]) -> ir.Value:
        """Elements of `a` and, counted on, `b`."""
        return self.builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(I32, len(places)), places))

    def cast(self, value: ir.Value, element: ir.Type) -> ir.Value:
        """The same bits as elements of another size."""
        bits = value.type.count * value.type.element.width
        return self.builder.bitcast(value, ir.VectorType(element, bits // element.width))

    def low(self, a: ir.Value, b: ir.Value) -> ir.Value:
        """Elements of the lower halves of `a` and `b` in turn, within each 128 bits (``punpckl``)."""
        return self._unpack(a, b, 0)

    def high(self, a: ir.Value, b: ir.Value) -> ir.Value:
        """Likewise of the upper halves (``punpckh``)."""
        return self._unpack(a, b, 1)

    def _unpack(self, a: ir.Value, b: ir.Value, half: int) -> ir.Value:
        count, lane = a.type.count, 128 // a.type.element.width
        places = []
        for start in range(0, count, lane):
            for k in range(start + half * lane // 2, start + (half + 1) * lane // 2):
                places += [k, count + k]
        return self.pick(a, b, places)

    def _in_parts(self, names: dict[int, str], result: ir.Type, *values: ir.Value) -> ir.Value | None:
        """An x86 instruction on parts of the vectors that fit it; None where there is none. Results have as many bits as `values`."""
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
        count = pairs.type.count
        factors = ir.Constant(pairs.type, [first, second] * (count // 2))
        names = {128: "llvm.x86.sse2.pmadd.wd", 256: "llvm.x86.avx2.pmadd.wd", 512: "llvm.x86.avx512.pmaddw.d.512"}
        found = self._in_parts(names, I32, pairs, factors)
        if found is not None:
            return found
        kind = ir.VectorType(I32, count // 2)
        a = self.builder.sext(self.pick(pairs, pairs, list(range(0, count, 2))), kind)
        b = self.builder.sext(self.pick(pairs, pairs, list(range(1, count, 2))), kind)
        return self.builder.add(self.builder.mul(a, splat(I32, count // 2, first)), self.builder.mul(b, splat(I32, count // 2, second)))

    def packed_unsigned(self, a: ir.Value, b: ir.Value) -> ir.Value:
        """int16 of `a` and `b` saturated to bytes without sign, those of `a` first within each 128 bits (``packuswb``)."""
        names = {128: "llvm.x86.sse2.packuswb.128", 256: "llvm.x86.avx2.packuswb", 512: "llvm.x86.avx512.packuswb.512"}
        found = self._in_parts(names, I8, a, b)
        return found if found is not None else self._saturated(a, b, 0, 255)

    def packed(self, a: ir.Value, b: ir.Value) -> ir.Value:
        """Signed elements of `a` and `b` saturated to half the size, those of `a` first within each 128 bits (``packss``)."""
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
        """Elements of `a` and `b` within bounds, in half the size, those of `a` first within each 128 bits."""
        count, lane = a.type.count, 128 // a.type.element.width
        places: list[int] = []
        for start in range(0, count, lane):
            places += [*range(start, start + lane), *range(count + start, count + start + lane)]
        both = self.clamped(self.pick(a, b, places), least, most)
        return self.builder.trunc(both, ir.VectorType(ir.IntType(a.type.element.width // 2), 2 * count))

    def clamped(self, value: ir.Value, least: int, most: int) -> ir.Value:
        """Signed elements within bounds."""
        element, count = value.type.element, value.type.count
        for name, bound in (("llvm.smax", least), ("llvm.smin", most)):
            function = self._binary(name, value.type)
            value = self.builder.call(function, [value, splat(element, count, bound)])
        return value

    def _binary(self, name: str, kind: ir.Type) -> ir.Function:
        return self.builder.module.declare_intrinsic(f"{name}.v{kind.count}i{kind.element.width}", (), ir.FunctionType(kind, [kind, kind]))

    def high_product(self, value: ir.Value, factor: int) -> ir.Value:
        """Upper halves of int16 products (``pmulhw``)."""
        count = value.type.count
        wide = ir.VectorType(I32, count)
        product = self.builder.mul(self.builder.sext(value, wide), splat(I32, count, factor))
        return self.builder.trunc(self.builder.lshr(product, splat(I32, count, 16)), value.type)
