"""Decimal logarithms of float64, several at a time.

``log10(x)`` with x = m 2^e, m between sqrt(1/2) and sqrt(2), and s = (m - 1) / (m + 1): log(m) = 2 s + 2 s^3 / 3 + 2 s^5 / 5 + ... The
polynomial is that of FreeBSD's e_log.c (error below 2^-58.45). The error is at most 2 units in the last place of float64. So a result
rounded to float32 differs from the C library's only about once in 10^8 times.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir

from ...compiled.kinds import Vector
from ...compiled.vectors import I64, call_ir, function_of, lanes, splat_ir

_POLYNOMIAL = (
    6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01, 2.222219843214978396e-01, 1.818357216161805012e-01,
    1.531383769920937332e-01, 1.479819860511658591e-01,
)  # fmt: skip
_LOG10_2_HIGH, _LOG10_E = math.log10(2), 1 / math.log(10)
_SMALLEST_NORMAL, _RAISED = float(np.finfo(np.float64).tiny), 54
_ONE, _EXPONENT_BIAS, _MANTISSA = 0x3FF0000000000000, 1023, 52
_ROOT_HALF = int(np.float64(math.sqrt(0.5)).view(np.int64))


def log10_ir(builder: Any, x: Any) -> Any:
    """The decimal logarithms of a vector of float64: -inf for 0, NaN for negative numbers."""
    count = x.type.count
    wide = ir.VectorType(I64, count)

    def real(value: float) -> Any:
        return splat_ir(builder, ir.Constant(ir.DoubleType(), value), count)

    def whole(value: int) -> Any:
        return splat_ir(builder, I64(value), count)

    small = builder.fcmp_ordered("<", x, real(_SMALLEST_NORMAL))
    scaled = builder.select(small, builder.fmul(x, real(2.0**_RAISED)), x)
    bits = builder.bitcast(scaled, wide)
    # Bits from those of sqrt(1/2) on count up to the next power of two, so that m is near 1.
    offset = builder.sub(bits, whole(_ROOT_HALF))
    exponent = builder.ashr(offset, whole(_MANTISSA))
    m = builder.bitcast(builder.sub(bits, builder.shl(exponent, whole(_MANTISSA))), x.type)
    exponent = builder.sub(exponent, builder.select(small, whole(_RAISED), whole(0)))
    f = builder.fsub(m, real(1.0))
    # s = f / (m + 1) without a division, which would take half of the time: a float32 reciprocal, one Newton step, then the remainder.
    divisor = builder.fadd(m, real(1.0))
    narrow = ir.VectorType(ir.FloatType(), count)
    guess = builder.fpext(builder.fdiv(ir.Constant(narrow, [1.0] * count), builder.fptrunc(divisor, narrow)), x.type)

    def fma(a: Any, b: Any, c: Any) -> Any:
        return call_ir(builder, f"llvm.fma.v{count}f64", [a, b, c])

    inverse = fma(guess, fma(builder.fneg(divisor), guess, real(1.0)), guess)
    s = builder.fmul(f, inverse)
    s = fma(inverse, fma(builder.fneg(divisor), s, f), s)
    z = builder.fmul(s, s)
    total = real(_POLYNOMIAL[-1])
    for factor in _POLYNOMIAL[-2::-1]:
        total = fma(total, z, real(factor))
    half_square = builder.fmul(builder.fmul(f, f), real(0.5))
    # log(m) = f - (f^2/2 - s (f^2/2 + R))
    log = builder.fsub(f, builder.fsub(half_square, builder.fmul(s, builder.fadd(half_square, builder.fmul(z, total)))))
    power = builder.sitofp(exponent, x.type)
    result = builder.fadd(builder.fmul(power, real(_LOG10_2_HIGH)), builder.fmul(log, real(_LOG10_E)))
    result = builder.select(builder.fcmp_ordered("==", x, real(0.0)), real(-math.inf), result)
    result = builder.select(builder.fcmp_ordered("<", x, real(0.0)), real(math.nan), result)
    return builder.select(builder.fcmp_unordered(">=", x, real(math.inf)), x, result)


def log10_of(count: int) -> Any:
    """``log10(v)`` for kernels, of `count` lanes."""
    kind: Vector = lanes("float64", count).kind
    return function_of(kind(kind), lambda context, builder, sig, args: log10_ir(builder, args[0]))
