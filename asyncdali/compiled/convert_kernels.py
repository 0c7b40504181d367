"""Conversions of single values between element types, as DALI does them; factories used by other kernels.

Integers saturate. Floats become integers in one of two ways, and saturate: "round" rounds half away from zero (casts, normalisation),
"truncate" drops the fraction (crops). NaN becomes the smallest value of 32-bit and 64-bit types (2**63 for uint64), and 0 of other types.
Values that are not zero after rounding become True. Kernels hold float16 as uint16. Conversions to float16 round ties away from zero, too.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir

from . import kinds
from .intrinsics import larger, smaller, view_of
from .kinds import intrinsic
from .step import pasted

_inline = pasted


@intrinsic
def half_to_float(typingctx, bits):
    """float32 value of a float16 given as uint16."""

    def codegen(context, builder, signature, args):
        return builder.fpext(builder.bitcast(args[0], ir.HalfType()), ir.FloatType())

    return kinds.float32(kinds.uint16), codegen


@intrinsic
def float_to_half(typingctx, value):
    """Convert float32 to float16, as uint16: the nearest value; ties round away from zero."""

    def codegen(context, builder, signature, args):
        # The instruction rounds ties to even. Setting the lowest bit removes ties. Infinity would become NaN.
        bits = builder.bitcast(args[0], ir.IntType(32))
        uneven = builder.bitcast(builder.or_(bits, bits.type(1)), ir.FloatType())
        infinite = builder.icmp_unsigned("==", builder.and_(bits, bits.type(0x7FFFFFFF)), bits.type(0x7F800000))
        value = builder.select(infinite, args[0], uneven)
        return builder.bitcast(builder.fptrunc(value, ir.HalfType()), ir.IntType(16))

    return kinds.uint16(kinds.float32), codegen


def storage(dtype: str) -> np.dtype:
    """The dtype that kernels see in memory: uint16 for float16, uint8 for bool, else the type itself."""
    return np.dtype({"float16": "uint16", "bool": "uint8"}.get(dtype, dtype))


def view(dtype: str) -> Any:
    """``view(address, count)`` over elements of `dtype` as they lie in memory (see :func:`storage`)."""
    return view_of(storage(dtype))


@cache
def load_value(dtype: str) -> Any:
    """``value(element)``: the value of an element in memory (float32 for float16, the number itself for other types)."""
    if dtype == "float16":
        return _inline(lambda element: half_to_float(element))
    return _inline(lambda element: element)


@cache
def converter(in_dtype: str, out_dtype: str, rounding: str = "round") -> Any:
    """``convert(element) -> element``: from memory of `in_dtype` to memory of `out_dtype`; rounding "round" or "truncate"."""
    if in_dtype == out_dtype:
        return _inline(lambda element: element)
    value = load_value(in_dtype)
    from_float = in_dtype.startswith("float")
    if out_dtype == "bool":
        if from_float:  # Values are rounded first: less than a half becomes False. NaN becomes True.
            half = np.dtype("float32" if in_dtype == "float16" else in_dtype).type(0.5)
            return _inline(lambda element: np.uint8(not (abs(value(element)) < half)))
        return _inline(lambda element: np.uint8(value(element) != 0))
    if out_dtype == "float16":
        return _inline(lambda element: float_to_half(np.float32(value(element))))
    if out_dtype.startswith("float"):
        kind = np.dtype(out_dtype).type
        return _inline(lambda element: kind(value(element)))
    if from_float:
        return _float_to_integer(out_dtype, rounding, value, "float64" if in_dtype == "float64" else "float32")
    return _integer_to_integer(storage(in_dtype), np.dtype(out_dtype), value)


@cache
def slicing_converter(in_dtype: str, out_dtype: str) -> Any:
    """``convert(element) -> element`` of crop and slice. Floats lose their fraction. Values too large for a float type become
    its largest value."""
    if out_dtype not in ("float16", "float32") or in_dtype == out_dtype or (out_dtype == "float32" and in_dtype != "float64"):
        return converter(in_dtype, out_dtype, "truncate")
    value = load_value(in_dtype)
    if out_dtype == "float32":
        bound = np.float64(np.finfo(np.float32).max)
        return _inline(lambda x: np.float32(bound if x > bound else -bound if x < -bound else x))
    largest = np.float32(65504)

    @_inline
    def convert(element):
        x = np.float32(value(element))
        return float_to_half(largest if x > largest else -largest if x < -largest else x)

    return convert


def _float_to_integer(out_dtype: str, rounding: str, value: Any, in_dtype: str) -> Any:
    kind, info, wide = np.dtype(out_dtype).type, np.iinfo(out_dtype), np.dtype(out_dtype).itemsize >= 4
    # Narrow types are computed in the input's precision. Types of 4 and 8 bytes are computed in float64, because float32 cannot represent
    # their bounds.
    real = np.float64 if wide else np.dtype(in_dtype).type
    # Rounding half away from zero: add almost a half to the magnitude, then drop the fraction. A whole half would be too much: for the
    # largest x below 0.5, x + 0.5 is rounded to 1.
    almost_half, nothing = np.nextafter(real(0.5), real(0)), real(0)
    low, high = real(info.min), real(info.max)
    above = np.float64(2.0) ** info.bits if info.min == 0 else np.float64(2.0) ** (info.bits - 1)
    smallest, largest = kind(info.min), kind(info.max)
    not_a_number = kind(2**63) if out_dtype == "uint64" else kind(info.min if info.min < 0 else 0)
    away, unsigned = rounding == "round", info.min == 0

    @_inline
    def narrow(element):
        x = real(value(element))
        if not unsigned:
            x = x if x == x else nothing
        x = smaller(larger(low, x), high)  # NaN becomes `low`
        if away:
            x = x + (almost_half if unsigned else np.copysign(almost_half, x))
        return kind(x)

    @_inline
    def broad(element):
        x = real(value(element))
        if x != x:
            return not_a_number
        whole = np.trunc(x + np.copysign(almost_half, x)) if away else np.trunc(x)
        if whole >= above:
            return largest
        if whole <= low:
            return smallest
        return kind(whole)

    return broad if wide else narrow


def _integer_to_integer(source: np.dtype, target: np.dtype, value: Any) -> Any:
    kind, have, want = target.type, np.iinfo(source), np.iinfo(target)
    low, high = source.type(max(have.min, want.min)), source.type(min(have.max, want.max))
    return _inline(lambda element: kind(smaller(larger(value(element), low), high)))
