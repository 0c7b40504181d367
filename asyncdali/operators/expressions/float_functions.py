"""The C library's functions of float32, as operations that a loop over elements can vectorise.

glibc computes one number per call. This module has the same operations in the same order and precision, without branches: a result is
equal to glibc's to the last bit. Each function covers the usual arguments. The function reports other arguments (subnormal numbers,
infinities, angles beyond 120). The caller then uses the library's function.

Each process compares each function with the platform's library once (``function_probes``). Where the bits differ, the library's function
is called. This is the case for most functions from glibc 2.41 on.

Sources: glibc 2.36, sysdeps/ieee754/flt-32 (e_*.c, s_*.c, k_tanf.c, math_config.h and tables), most of them of FreeBSD's msun. Where glibc
has a variant for processors with FMA (expf, logf, log2f, powf, sinf, cosf), this module follows that variant.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from ...compiled.c_library import COSINE, HALF_PI, HALF_PI_INVERSE, LOG_2, LOG_POLYNOMIAL, LOG_TABLE, SINE
from .values import F64, I64, Value, looked_up

Result: TypeAlias = tuple[Value, Value]
"""A result, and whether the function does not cover the argument (the result is then invalid)."""


def _f(bits: int) -> float:
    """The float32 with these bits."""
    return float(np.uint32(bits).view(np.float32))


def _h(text: str) -> float:
    return float.fromhex(text)


_ONE, _TWO, _INFINITY, _MANTISSA = 0x3F800000, 0x40000000, 0x7F800000, 23
_NORMAL = 0x00800000
_NOT_A_NUMBER = 0xFFC00000 - (1 << 32)
"""The bits of NaN that the division 0 / 0 has on x86."""
_LN2_HI, _LN2_LO = _f(0x3F317180), _f(0x3717F7D1)


def _polynomial(x: Value, *coefficients: float) -> Value:
    """c0 + x (c1 + x (c2 + ...)), rounded after each operation."""
    total = x * coefficients[-1] + coefficients[-2]
    for coefficient in coefficients[-3::-1]:
        total = total * x + coefficient
    return total


def _size(x: Value) -> Value:
    """The bits of |x|, which are ordered like the numbers."""
    return x.bits() & 0x7FFFFFFF


def _is_normal(bits: Value) -> Value:
    """Whether the bits are those of a positive, normal, finite number."""
    return (bits - _NORMAL).below(_INFINITY - _NORMAL)


# ---------------------------------------------------------------------------------------------- exponential function, logarithms, powers

_EXP_BITS = 5
_EXP_COUNT = 1 << _EXP_BITS
_EXP_TABLE = [int(np.float64(2.0 ** (k / _EXP_COUNT)).view(np.int64)) - (k << (52 - _EXP_BITS)) for k in range(_EXP_COUNT)]
_EXP_POLYNOMIAL = [_h("0x1.c6af84b912394p-5"), _h("0x1.ebfce50fac4f3p-3"), _h("0x1.62e42ff0c52d6p-1")]
_EXP_SHIFT = _h("0x1.8p+52")
_LARGEST_EXPONENT = 88.0


def _power_of_two(k: Value, r: Value, polynomial: list[float]) -> Value:
    """2^((k + r) / 32) in float64; k int64."""
    scale = (looked_up(k & (_EXP_COUNT - 1), "exp2f_table", _EXP_TABLE, I64) + (k << (52 - _EXP_BITS))).as_float()
    z = r.fused(polynomial[0], polynomial[1])
    y = r.fused(polynomial[2], 1.0)
    return z.fused(r * r, y) * scale


def _expf(x: Value) -> Value:
    """For |x| < 88."""
    inverse = _h("0x1.71547652b82fep+0") * _EXP_COUNT
    wide = x.double()
    shifted = wide.fused(inverse, _EXP_SHIFT)
    r = wide.fused(inverse, -(shifted - _EXP_SHIFT))
    scaled = [_EXP_POLYNOMIAL[0] / _EXP_COUNT**3, _EXP_POLYNOMIAL[1] / _EXP_COUNT**2, _EXP_POLYNOMIAL[2] / _EXP_COUNT]
    return _power_of_two(shifted.bits(), r, scaled).single()


def exp(x: Value) -> Result:
    return _expf(x), (x.magnitude() < _LARGEST_EXPONENT).negated()


_LOG_OFFSET = 0x3F330000
_LOG2_TABLE = [
    _h(text)
    for text in (
        "-0x1.efec65b963019p-2", "-0x1.b0b6832d4fca4p-2", "-0x1.7418b0a1fb77bp-2", "-0x1.39de91a6dcf7bp-2", "-0x1.01d9bf3f2b631p-2",
        "-0x1.97c1d1b3b7af0p-3", "-0x1.2f9e393af3c9fp-3", "-0x1.960cbbf788d5cp-4", "-0x1.a6f9db6475fcep-5", "0x0p+0",
        "0x1.338ca9f24f53dp-4", "0x1.476a9543891bap-3", "0x1.e840b4ac4e4d2p-3", "0x1.40645f0c6651cp-2", "0x1.88e9c2c1b9ff8p-2",
        "0x1.ce0a44eb17bccp-2",
    )
]  # fmt: skip
_LOG2_POLYNOMIAL = [_h("-0x1.712b6f70a7e4dp-2"), _h("0x1.ecabf496832ep-2"), _h("-0x1.715479ffae3dep-1"), _h("0x1.715475f35c8b8p0")]
_POW_POLYNOMIAL = [
    _h("0x1.27616c9496e0bp-2"), _h("-0x1.71969a075c67ap-2"), _h("0x1.ec70a6ca7baddp-2"), _h("-0x1.7154748bef6c8p-1"),
    _h("0x1.71547652ab82bp0"),
]  # fmt: skip


def _split(x: Value, logarithms: list[float], name: str) -> tuple[Value, Value, Value]:
    """x = 2^k c (1 + r) for a c near it: k, r and the logarithm of c from a table, float64."""
    bits = x.bits()
    offset = bits - _LOG_OFFSET
    index = offset.zero_shift(_MANTISSA - 4) & 15
    z = (bits - (offset & -(1 << _MANTISSA))).as_float().double()
    inverse = looked_up(index, "logf_inverses", [pair[0] for pair in LOG_TABLE], F64)
    return (offset >> _MANTISSA).double(), z.fused(inverse, -1.0), looked_up(index, name, logarithms, F64)


def _logf(x: Value) -> Value:
    """For positive normal numbers."""
    k, r, log = _split(x, [pair[1] for pair in LOG_TABLE], "logf_table")
    y0 = k.fused(LOG_2, log)
    r2 = r * r
    y = r2.fused(LOG_POLYNOMIAL[0], r.fused(LOG_POLYNOMIAL[1], LOG_POLYNOMIAL[2]))
    return y.fused(r2, y0 + r).single()


def log(x: Value) -> Result:
    return _logf(x), _is_normal(x.bits()).negated()


def log2(x: Value) -> Result:
    k, r, logarithm = _split(x, _LOG2_TABLE, "log2f_table")
    a = _LOG2_POLYNOMIAL
    y0, r2 = logarithm + k, r * r
    y = r2.fused(a[0], r.fused(a[1], a[2]))
    return y.fused(r2, r.fused(a[3], y0)).single(), _is_normal(x.bits()).negated()


def log10(x: Value) -> Result:
    bits = x.bits()
    k = (bits >> _MANTISSA) - 127
    negative = k.zero_shift(31)
    y = (k + negative).single()
    part = ((bits & 0x007FFFFF) | ((127 - negative) << _MANTISSA)).as_float()
    z = y * _f(0x355427DB) + _logf(part) * _f(0x3EDE5BD9)
    return z + y * _f(0x3E9A2080), _is_normal(bits).negated()


def pow(x: Value, y: Value) -> Result:
    k, r, logarithm = _split(x, _LOG2_TABLE, "log2f_table")
    a = _POW_POLYNOMIAL
    y0, r2 = logarithm + k, r * r
    q = r.fused(a[2], a[3]).fused(r2, r.fused(a[4], y0))
    exponent = y.double() * r.fused(a[0], a[1]).fused(r2 * r2, q)
    shift = _EXP_SHIFT / _EXP_COUNT
    shifted = exponent + shift
    power = _power_of_two(shifted.bits(), exponent - (shifted - shift), _EXP_POLYNOMIAL)
    return power.single(), (_is_normal(x.bits()) & (exponent.magnitude() < 126.0)).negated()


def cbrt(x: Value) -> Result:
    bits = _size(x)
    exponent = bits.zero_shift(_MANTISSA) - 126
    mantissa = ((bits & 0x007FFFFF) | (126 << _MANTISSA)).as_float().double()
    u = (mantissa * (0.697570460207922770 - mantissa * 0.191502161678719066) + 0.492659620528969547).single()
    cube = (u * u * u).double()
    root = 2.0 ** (1 / 3)
    square = _h("0x1.965fea53d6e3dp+0")
    factor = looked_up(exponent.remainder(3) + 2, "cbrtf_factors", [1 / square, 1 / root, 1.0, root, square], F64)
    y = (u.double() * (cube + mantissa * 2.0) / (cube * 2.0 + mantissa) * factor).single()
    scaled = (y * ((exponent.quotient(3) + 127) << _MANTISSA).as_float()).with_sign_of(x)
    zero = bits.equals(0)
    return zero.choose(x, scaled), (_is_normal(bits) | zero).negated()


# ------------------------------------------------------------------------------------------------------------------------------- angles


def _circular(x: Value, odd_is_sine: bool) -> Result:
    wide = x.double()
    n = ((wide * HALF_PI_INVERSE).whole() + 0x800000) >> 24
    reduced = (-n.double()).fused(HALF_PI, wide)
    x2 = reduced * reduced
    # Quadrants 1 and 2 change the sign of the sine. Quadrants 2 and 3 change the sign of the cosine's coefficients.
    turned = _has(n + 1, 2).choose(-reduced, reduced)
    x3 = turned * x2
    sine = (x3 * x2).fused(x2.fused(SINE[2], SINE[1]), x3.fused(SINE[0], turned))
    x4 = x2 * x2
    cosine = (x4 * x2).fused(x2.fused(COSINE[4], COSINE[3]), x4.fused(COSINE[2], x2.fused(COSINE[1], COSINE[0])))
    cosine = _has(n, 2).choose(-cosine, cosine)
    odd = _has(n, 1)
    result = odd.choose(sine, cosine) if odd_is_sine else odd.choose(cosine, sine)
    return result.single(), _beyond_reduction(x)


def _beyond_reduction(x: Value) -> Value:
    """Whether an angle is too large to be reduced by one float64 multiplication: 120 and more, and NaN."""
    return (x.magnitude() < 119.0).negated()


def _has(value: Value, bit: int) -> Value:
    return (value & bit).equals(0).negated()


def sin(x: Value) -> Result:
    result, beyond = _circular(x, False)
    return (_size(x) < 0x39800000).choose(x, result), beyond  # -0.0 is kept.


def cos(x: Value) -> Result:
    return _circular(x, True)


_TAN = [
    _f(bits)
    for bits in (
        0x3EAAAAAB, 0x3E088889, 0x3D5D0DD1, 0x3CB327A4, 0x3C11371F, 0x3B6B6916, 0x3ABEDE48, 0x3A1A26C8, 0x398137B9, 0x38A3F445, 0x3895C07A,
        0xB79BAE5F, 0x37D95384,
    )
]  # fmt: skip
_QUARTER_PI_HIGH, _QUARTER_PI_LOW = _f(0x3F490FDA), _f(0x33222168)


def _reduced(x: Value) -> tuple[Value, Value, Value]:
    """(n, y0, y1): x = n pi / 2 + y0 + y1, |y0| up to pi / 4."""
    small = _size(x) <= 0x3F490FDA
    wide = x.double()
    n = ((wide * HALF_PI_INVERSE).whole() + 0x800000) >> 24
    r = wide - n.double() * HALF_PI
    y0 = r.single()
    y1 = (r - y0.double()).single()
    return small.choose(n & 0, n), small.choose(x, y0), small.choose(x * 0.0, y1)


def tan(x: Value) -> Result:
    n, y0, y1 = _reduced(x)
    size, sign = _size(y0), y0.bits()
    high = size >= 0x3F2CA140  # 0.6744
    sign_bit = sign & -(1 << 31)

    def flipped(value: Value) -> Value:
        return (value.bits() ^ sign_bit).as_float()

    moved = (_QUARTER_PI_HIGH - flipped(y0)) + (_QUARTER_PI_LOW - flipped(y1))
    a, y = high.choose(moved, y0), high.choose(y1 * 0.0, y1)
    z = a * a
    w = z * z
    odd, even = _polynomial(w, *_TAN[1::2]), _polynomial(w, *_TAN[2::2]) * z
    s = z * a
    r = y + z * (s * (odd + even) + y)
    r = r + s * _TAN[0]
    w = a + r
    turned = _has(n, 1)
    v = turned.choose(w * 0.0 - 1.0, 1.0)
    near = flipped(v - (a - (w * w / (w + v) - r)) * 2.0)
    cut = (w.bits() & -4096).as_float()
    rest = r - (cut - a)
    inverse = -1.0 / w
    t = (inverse.bits() & -4096).as_float()
    cotangent = t + inverse * ((t * cut + 1.0) + t * rest)
    small = size < 0x39000000
    tiny = high & (moved.magnitude() < _h("0x1p-13"))
    cotangent, w = small.choose(-1.0 / y0, cotangent), small.choose(y0, w)
    return high.choose(near, turned.choose(cotangent, w)), tiny | _beyond_reduction(x)


_ATAN_HIGH = [_f(bits) for bits in (0x3EED6338, 0x3F490FDA, 0x3F7B985E, 0x3FC90FDA)]
_ATAN_LOW = [_f(bits) for bits in (0x31AC3769, 0x33222168, 0x33140FB4, 0x33A22168)]
_ATAN = [
    _f(bits)
    for bits in (
        0x3EAAAAAB, 0xBE4CCCCD, 0x3E124925, 0xBDE38E38, 0x3DBA2E6E, 0xBD9D8795, 0x3D886B35, 0xBD6EF16B, 0x3D4BDA59, 0xBD15A221, 0x3C8569D7,
    )
]  # fmt: skip


def _atanf(x: Value) -> Value:
    """For numbers below 2^25."""
    size, a = _size(x), x.magnitude()
    direct, first, second, third = size < 0x3EE00000, size < 0x3F300000, size < 0x3F980000, size < 0x401C0000
    top = direct.choose(x, first.choose(a * 2.0 - 1.0, second.choose(a - 1.0, third.choose(a - 1.5, a * 0.0 - 1.0))))
    one = a * 0.0 + 1.0
    bottom = direct.choose(one, first.choose(a + 2.0, second.choose(a + 1.0, third.choose(a * 1.5 + 1.0, a))))
    t = top / bottom
    z = t * t
    w = z * z
    s1, s2 = z * _polynomial(w, *_ATAN[::2]), w * _polynomial(w, *_ATAN[1::2])
    product = t * (s1 + s2)

    def chosen(values: list[float]) -> Value:
        return first.choose(one * values[0], second.choose(one * values[1], third.choose(one * values[2], values[3])))

    far = (chosen(_ATAN_HIGH) - ((product - chosen(_ATAN_LOW)) - t)).with_sign_of(x)
    return (size < 0x31000000).choose(x, direct.choose(t - product, far))


def atan(x: Value) -> Result:
    return _atanf(x), (_size(x) < 0x4C000000).negated()


def atan2(y: Value, x: Value) -> Result:
    sizes = [_size(value) for value in (y, x)]
    ratio = (sizes[0] - sizes[1]) >> _MANTISSA
    z = _atanf((y / x).magnitude())
    pi, low = _f(0x40490FDB), _f(0xB3BBBD2E)
    behind = pi - (z - low)
    result = (x.bits() < 0).choose(behind, z).with_sign_of(y)
    covered = _is_normal(sizes[0]) & _is_normal(sizes[1]) & ((ratio + 23).below(46))
    return result, covered.negated()


_ASIN = [1.666675248e-1, 7.495297643e-2, 4.547037598e-2, 2.417951451e-2, 4.216630880e-2]
_ASIN = [float(np.float32(value)) for value in _ASIN]
_HALF_PI_F, _HALF_PI_LOW, _QUARTER_PI_F = _f(0x3FC90FDB), -_f(0x333BBD2E), _f(0x3F490FDB)


def _split_root(t: Value) -> tuple[Value, Value, Value]:
    """The root of t, its upper half, and the error of the upper half."""
    s = t.root()
    w = (s.bits() & -4096).as_float()
    return s, w, (t - w * w) / (s + w)


def asin(x: Value) -> Result:
    size, a = _size(x), x.magnitude()
    small = size < 0x3F000000
    t = small.choose(x * x, (1.0 - a) * 0.5)
    p = t * _polynomial(t, *_ASIN)
    s, w, c = _split_root(t)
    near_one = _HALF_PI_F - ((s + s * p) * 2.0 - _HALF_PI_LOW)
    q = _QUARTER_PI_F - w * 2.0
    middle = _QUARTER_PI_F - ((s * 2.0 * p - (_HALF_PI_LOW - c * 2.0)) - q)
    far = (size >= 0x3F79999A).choose(near_one, middle).with_sign_of(x)
    one = x * _HALF_PI_F + x * _HALF_PI_LOW
    result = small.choose((size < 0x32000000).choose(x, x + x * p), size.equals(_ONE).choose(one, far))
    return result, (size <= _ONE).negated()


_ACOS_TOP = [_f(bits) for bits in (0x3E2AAAAB, 0xBEA6B090, 0x3E4E0AA8, 0xBD241146, 0x3A4F7F04, 0x3811EF08)]
_ACOS_BOTTOM = [1.0, *(_f(bits) for bits in (0xC019D139, 0x4001572D, 0xBF303361, 0x3D9DC62E))]


def acos(x: Value) -> Result:
    size, negative = _size(x), x.bits() < 0
    half_pi, low, pi = _f(0x3FC90FDA), _f(0x33A22168), _f(0x40490FDA)
    small = size < 0x3F000000
    z = small.choose(x * x, (1.0 - x.magnitude()) * 0.5)
    r = z * _polynomial(z, *_ACOS_TOP) / _polynomial(z, *_ACOS_BOTTOM)
    s, upper, c = _split_root(z)
    middle = half_pi - (x - (low - x * r))
    behind = pi - (s + (r * s - low)) * 2.0
    ahead = (upper + (r * s + c)) * 2.0
    ends = negative.choose(x * 0.0 + float(np.float32(pi) + np.float32(2) * np.float32(low)), 0.0)
    result = small.choose(middle, size.equals(_ONE).choose(ends, negative.choose(behind, ahead)))
    return result, (size <= _ONE).negated()


# ------------------------------------------------------------------------------------------------------------------ hyperbolic functions

_EXPM1 = [_f(bits) for bits in (0xBD088889, 0x3AD00D01, 0xB8A670CD, 0x36867E54, 0xB457EDBB)]


def _expm1f(x: Value) -> Value:
    """For numbers from about -44 to about 88."""
    size, negative = _size(x), x.bits() < 0
    reduced, once = size > 0x3EB17218, size < 0x3F851592  # 0.5 and 1.5 ln 2
    half = negative.choose(x * 0.0 - 0.5, 0.5)
    several = (x * _f(0x3FB8AA3B) + half).whole()
    single = negative.choose(several * 0 - 1, 1)
    k = reduced.choose(once.choose(single, several), 0)
    t = k.single()
    high, low = x - t * _LN2_HI, t * _LN2_LO
    a = reduced.choose(high - low, x)
    c = (high - a) - low
    hfx = a * 0.5
    hxs = a * hfx
    r1 = _polynomial(hxs, 1.0, *_EXPM1)
    t = 3.0 - r1 * hfx
    e = hxs * ((r1 - t) / (6.0 - a * t))
    direct = a - (a * e - hxs)
    e = (a * (e - c) - c) - hxs
    minus = (a - e) * 0.5 - 0.5
    plus = (a < -0.25).choose((e - (a + 0.5)) * -2.0, (a - e) * 2.0 + 1.0)
    exponent = k << _MANTISSA

    def raised(value: Value) -> Value:
        return (value.bits() + exponent).as_float()

    power = ((127 - k) << _MANTISSA).as_float()  # 2^-k
    outside = raised(1.0 - (e - a)) - 1.0
    below = raised((1.0 - power) - (e - a))
    above = raised((a - (e + power)) + 1.0)
    far = ((k <= -2) | (k > 56)).choose(outside, (k < 23).choose(below, above))
    result = k.equals(0).choose(direct, k.equals(1).choose(plus, k.equals(-1).choose(minus, far)))
    return (size < 0x33000000).choose(x, result)


_LOG1P = [_f(bits) for bits in (0x3F2AAAAB, 0x3ECCCCCD, 0x3E924925, 0x3E638E29, 0x3E3A3325, 0x3E1CD04F, 0x3E178897)]


def _log1pf(x: Value) -> Result:
    """For positive numbers."""
    size = x.bits()
    direct = size < 0x3ED413D7
    u = x + 1.0
    bits = u.bits()
    k = (bits >> _MANTISSA) - 127
    c = (k > 0).choose(1.0 - (u - x), x - (u - 1.0)) / u
    mantissa = bits & 0x007FFFFF
    lower = mantissa < 0x3504F7
    k = direct.choose(k * 0, lower.choose(k, k + 1))
    f = direct.choose(x, (mantissa | lower.choose(bits * 0 + _ONE, 0x3F000000)).as_float() - 1.0)
    rest = lower.choose(mantissa, (0x00800000 - mantissa) >> 2)
    half_square = f * 0.5 * f
    s = f / (f + 2.0)
    z = s * s
    r = z * _polynomial(z, *_LOG1P)
    times = k.single()
    near = f - (half_square - s * (half_square + r))
    low = times * _LN2_LO + c
    far = times * _LN2_HI - ((half_square - (s * (half_square + r) + low)) - f)
    power = f.equals(0.0)
    far = power.choose(times * _LN2_HI + low, far)
    tiny = size < 0x31000000
    result = tiny.choose((size < 0x24800000).choose(x, x - x * x * 0.5), k.equals(0).choose(near, far))
    return result, (rest.equals(0) & (direct | power).negated()) | (size < 0x5A000000).negated()


def sinh(x: Value) -> Result:
    size, a = _size(x), x.magnitude()
    half = (x * 0.0 + 0.5).with_sign_of(x)
    t = _expm1f((size < 0x41B00000).choose(a, 1.0))
    low = size < _ONE
    quotient = low.choose(t * t, t) / (t + 1.0)  # One division for both, because divisions take most of the time.
    near = half * low.choose(t * 2.0 - quotient, t + quotient)
    far = half * _expf(a)
    result = (size < 0x41B00000).choose((size < 0x31800000).choose(x, near), far)
    return result, (a < _LARGEST_EXPONENT).negated()


def cosh(x: Value) -> Result:
    size, a = _size(x), x.magnitude()
    low = size < 0x3EB17218
    t = _expm1f(low.choose(a, 0.25))
    w = t + 1.0
    power = _expf(a)
    quotient = low.choose(t * t, 0.5) / low.choose(w + w, power)
    near = (size < 0x24000000).choose(w, quotient + 1.0)
    result = low.choose(near, (size < 0x41B00000).choose(power * 0.5 + quotient, power * 0.5))
    return result, (a < _LARGEST_EXPONENT).negated()


def tanh(x: Value) -> Result:
    size, a = _size(x), x.magnitude()
    low = size < _ONE
    t = _expm1f((size < 0x41B00000).choose(low.choose(a * -2.0, a * 2.0), 1.0))
    quotient = low.choose(-t, 2.0) / (t + 2.0)
    z = low.choose(quotient, 1.0 - quotient)
    z = (size < 0x41B00000).choose(z, 1.0).with_sign_of(x)
    return (size < 0x24000000).choose(x * (x + 1.0), z), (size < _INFINITY).negated()


def asinh(x: Value) -> Result:
    size, a = _size(x), x.magnitude()
    t = a * a
    above, large = size > _TWO, size > 0x47000000
    one = a * 0.0 + 1.0
    quotient = above.choose(one, t) / ((t + 1.0).root() + above.choose(a, one))
    low, hard = _log1pf(a + quotient)
    logarithm = _logf(large.choose(a, a * 2.0 + quotient))
    logarithm = large.choose(logarithm + _f(0x3F317218), logarithm)
    result = above.choose(logarithm, low).with_sign_of(x)
    return (size < 0x38000000).choose(x, result), (hard & above.negated()) | (size < _INFINITY).negated()


def acosh(x: Value) -> Result:
    bits = x.bits()
    t = x - 1.0
    above, huge = bits > _TWO, bits >= 0x4D800000
    root = above.choose(x * x - 1.0, t * 2.0 + t * t).root()
    low, hard = _log1pf(t + root)
    logarithm = _logf(huge.choose(x, x * 2.0 - 1.0 / (x + root)))
    logarithm = huge.choose(logarithm + _f(0x3F317218), logarithm)
    nothing = (bits & 0 | _NOT_A_NUMBER).as_float()
    below, one = x < 1.0, bits.equals(_ONE)
    result = below.choose(nothing, one.choose(t, above.choose(logarithm, low)))
    hard = hard & above.negated() & (below | one).negated()
    return result, hard | (x < float("inf")).negated()


def atanh(x: Value) -> Result:
    a = x.magnitude()
    twice = a + a
    low = a < 0.5
    result, hard = _log1pf(low.choose(twice + twice * a / (1.0 - a), twice / (1.0 - a)))
    one = a.equals(1.0)
    finite = one.choose(x / (1.0 - a), (result * 0.5).with_sign_of(x))
    small = a < _h("0x1p-28")
    return small.choose(x, finite), (hard & (one | small).negated()) | (a <= 1.0).negated()


FUNCTIONS: dict[str, Callable[..., Result]] = {
    "exp": exp, "log": log, "log2": log2, "log10": log10, "pow": pow, "cbrt": cbrt, "sin": sin, "cos": cos, "tan": tan, "atan": atan,
    "atan2": atan2, "asin": asin, "acos": acos, "sinh": sinh, "cosh": cosh, "tanh": tanh, "asinh": asinh, "acosh": acosh, "atanh": atanh,
}  # fmt: skip
"""Functions by the name of the C function without its final f."""

DOUBLE_FUNCTIONS = {"exp", "log", "log2", "log10", "pow", "sin", "cos"}
"""Functions that compute in float64. The others need it for a few operations, or not at all."""
