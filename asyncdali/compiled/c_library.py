"""The C library's ``logf`` and ``cosf`` for vectors, equal to the last bit.

glibc (from 2.28 on) computes both in float64 and rounds once. These functions use the same operations, with fused multiplications where
glibc's variant for processors with FMA has them. Once per process they are compared with the platform's C library
(:func:`same_as_platform`). If any bit differs, kernels call the platform's functions number by number.

Sources: glibc 2.36, sysdeps/ieee754/flt-32/e_logf.c, s_cosf.c and their tables.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir

from . import kinds
from .addresses import address_of
from .intrinsics import c_function, load_f32, store_f32
from .kinds import cgutils
from .step import compiled
from .target import processor_has
from .vectors import I32, I64, call_ir, function_of, is_x86, load_ir, splat_ir, store_ir

_F64 = ir.DoubleType()
_H = float.fromhex
_LOG_OFFSET, _LOG_BITS = 0x3F330000, 4
LOG_TABLE = [
    (_H(inverse), _H(log))
    for inverse, log in (
        ("0x1.661ec79f8f3bep+0", "-0x1.57bf7808caadep-2"), ("0x1.571ed4aaf883dp+0", "-0x1.2bef0a7c06ddbp-2"),
        ("0x1.49539f0f010bp+0", "-0x1.01eae7f513a67p-2"), ("0x1.3c995b0b80385p+0", "-0x1.b31d8a68224e9p-3"),
        ("0x1.30d190c8864a5p+0", "-0x1.6574f0ac07758p-3"), ("0x1.25e227b0b8eap+0", "-0x1.1aa2bc79c81p-3"),
        ("0x1.1bb4a4a1a343fp+0", "-0x1.a4e76ce8c0e5ep-4"), ("0x1.12358f08ae5bap+0", "-0x1.1973c5a611cccp-4"),
        ("0x1.0953f419900a7p+0", "-0x1.252f438e10c1ep-5"), ("0x1p+0", "0x0p+0"), ("0x1.e608cfd9a47acp-1", "0x1.aa5aa5df25984p-5"),
        ("0x1.ca4b31f026aap-1", "0x1.c5e53aa362eb4p-4"), ("0x1.b2036576afce6p-1", "0x1.526e57720db08p-3"),
        ("0x1.9c2d163a1aa2dp-1", "0x1.bc2860d22477p-3"), ("0x1.886e6037841edp-1", "0x1.1058bc8a07ee1p-2"),
        ("0x1.767dcf5534862p-1", "0x1.4043057b6ee09p-2"),
    )
]  # fmt: skip
LOG_2 = _H("0x1.62e42fefa39efp-1")
LOG_POLYNOMIAL = [_H("-0x1.00ea348b88334p-2"), _H("0x1.5575b0be00b6ap-2"), _H("-0x1.ffffef20a4123p-2")]
HALF_PI_INVERSE, HALF_PI = _H("0x1.45F306DC9C883p+23"), _H("0x1.921FB54442D18p0")
COSINE = [
    _H("0x1p0"), _H("-0x1.ffffffd0c621cp-2"), _H("0x1.55553e1068f19p-5"), _H("-0x1.6c087e89a359dp-10"), _H("0x1.99343027bf8c3p-16"),
]  # fmt: skip
SINE = [_H("-0x1.555545995a603p-3"), _H("0x1.1107605230bc4p-7"), _H("-0x1.994eb3774cf24p-13")]
_LARGEST_ANGLE = 100.0


class _Real:
    """Operations on vectors of float64 with `count` lanes."""

    def __init__(self, builder: Any, count: int):
        self.builder, self.count = builder, count
        self.kind = ir.VectorType(_F64, count)

    def number(self, value: float) -> Any:
        return splat_ir(self.builder, ir.Constant(_F64, value), self.count)

    def fma(self, a: Any, b: Any, c: Any) -> Any:
        return call_ir(self.builder, f"llvm.fma.v{self.count}f64", [a, b, c])

    def looked_up(self, index: Any, name: str, values: list[float]) -> Any:
        """Elements of a constant table; `index` is a vector of int32."""
        builder, count = self.builder, self.count
        kind = ir.ArrayType(_F64, len(values))
        table = cgutils.global_constant(builder.module, name, ir.Constant(kind, [ir.Constant(_F64, value) for value in values]))
        base = splat_ir(builder, builder.ptrtoint(table, I64), count)
        places = builder.add(base, builder.shl(builder.zext(index, base.type), splat_ir(builder, I64(3), count)))
        pointers = builder.inttoptr(places, ir.VectorType(_F64.as_pointer(), count))
        mask = ir.Constant(ir.VectorType(ir.IntType(1), count), [True] * count)
        return call_ir(builder, f"llvm.masked.gather.v{count}f64.v{count}p0", [pointers, I32(8), mask, self.number(0.0)], self.kind)


def logf_ir(builder: Any, x: Any) -> Any:
    """``logf`` of a vector of positive, normal, finite float32."""
    count = x.type.count
    real, whole = _Real(builder, count), ir.VectorType(I32, count)

    def bits(value: int) -> Any:
        return splat_ir(builder, I32(value), count)

    ix = builder.bitcast(x, whole)
    offset = builder.sub(ix, bits(_LOG_OFFSET))
    index = builder.and_(builder.lshr(offset, bits(23 - _LOG_BITS)), bits((1 << _LOG_BITS) - 1))
    power = builder.sitofp(builder.ashr(offset, bits(23)), real.kind)
    z = builder.fpext(builder.bitcast(builder.sub(ix, builder.and_(offset, bits(-(1 << 23)))), x.type), real.kind)
    inverse = real.looked_up(index, "logf_inverses", [pair[0] for pair in LOG_TABLE])
    log = real.looked_up(index, "logf_logs", [pair[1] for pair in LOG_TABLE])
    r = real.fma(z, inverse, real.number(-1.0))
    y0 = real.fma(power, real.number(LOG_2), log)
    r2 = builder.fmul(r, r)
    y = real.fma(real.number(LOG_POLYNOMIAL[1]), r, real.number(LOG_POLYNOMIAL[2]))
    y = real.fma(real.number(LOG_POLYNOMIAL[0]), r2, y)
    return builder.fptrunc(real.fma(y, r2, builder.fadd(y0, r)), x.type)


def cosf_ir(builder: Any, x: Any) -> Any:
    """``cosf`` of a vector of float32 between 0 and 100."""
    count = x.type.count
    real, whole = _Real(builder, count), ir.VectorType(I32, count)

    def bits(value: int) -> Any:
        return splat_ir(builder, I32(value), count)

    wide = builder.fpext(x, real.kind)
    scaled = builder.fptosi(builder.fmul(wide, real.number(HALF_PI_INVERSE)), whole)
    n = builder.ashr(builder.add(scaled, bits(0x800000)), bits(24))
    reduced = real.fma(builder.fneg(builder.sitofp(n, real.kind)), real.number(HALF_PI), wide)

    def flag(value: Any, bit: int) -> Any:
        return builder.icmp_signed("!=", builder.and_(value, bits(bit)), bits(0))

    x2 = builder.fmul(reduced, reduced)
    # Quadrants 1 and 2 change the sine's sign, 2 and 3 that of the cosine's coefficients.
    turned = flag(builder.add(n, bits(1)), 2)
    sine_of = builder.select(turned, builder.fneg(reduced), reduced)
    x3 = builder.fmul(sine_of, x2)
    s1 = real.fma(x2, real.number(SINE[2]), real.number(SINE[1]))
    x7 = builder.fmul(x3, x2)
    sine = real.fma(x7, s1, real.fma(x3, real.number(SINE[0]), sine_of))
    x4 = builder.fmul(x2, x2)
    c2 = real.fma(x2, real.number(COSINE[4]), real.number(COSINE[3]))
    c1 = real.fma(x2, real.number(COSINE[1]), real.number(COSINE[0]))
    x6 = builder.fmul(x4, x2)
    cosine = real.fma(x6, c2, real.fma(x4, real.number(COSINE[2]), c1))
    cosine = builder.select(flag(n, 2), builder.fneg(cosine), cosine)
    return builder.fptrunc(builder.select(flag(n, 1), sine, cosine), x.type)


_PROBES = 16
_logf, _cosf = c_function("logf", kinds.float32, kinds.float32), c_function("cosf", kinds.float32, kinds.float32)


def _prober(lower: Callable[[Any, Any], Any]) -> Any:
    kind = ir.VectorType(ir.FloatType(), _PROBES)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        store_ir(builder, lower(builder, load_ir(builder, args[0], kind)), args[1])
        return context.get_dummy_value()

    return function_of(kinds.void(kinds.int64, kinds.int64), codegen)


_probe_log, _probe_cos = _prober(logf_ir), _prober(cosf_ir)


@compiled(4)
def _probe(numbers, theirs, ours, count):
    """Logarithms of float32[count], and cosines of the next float32[count], by the platform and by the functions above."""
    for i in range(count):
        store_f32(theirs + 4 * i, _logf(load_f32(numbers + 4 * i)))
        store_f32(theirs + 4 * (count + i), _cosf(load_f32(numbers + 4 * (count + i))))
    for i in range(0, 4 * count, 4 * _PROBES):
        _probe_log(numbers + i, ours + i)
        _probe_cos(numbers + 4 * count + i, ours + 4 * count + i)
    return 0


def differing(logarithms: np.ndarray, angles: np.ndarray) -> int:
    """Number of results (for a multiple of 16 numbers of each function) whose bits differ from the platform's C library."""
    numbers = np.concatenate([logarithms, angles]).astype(np.float32)
    theirs, ours = np.empty_like(numbers), np.empty_like(numbers)
    _probe(address_of(numbers), address_of(theirs), address_of(ours), len(logarithms))
    return int((theirs.view(np.uint32) != ours.view(np.uint32)).sum())


@cache
def same_as_platform() -> bool:
    """Whether the C library gives the same bits for 4,096 numbers of each function."""
    if not (is_x86() and processor_has("fma")):
        return False
    random = np.random.default_rng(1)
    return differing(random.uniform(0, 1, 4096) + 1e-9, random.uniform(0, _LARGEST_ANGLE, 4096)) == 0
