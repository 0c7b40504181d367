"""Distributions of the GNU C++ library over a stream of 32-bit words, as DALI uses them.

Rounding follows that library: floats are computed in the output's precision, some comparisons in float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..compiled import kinds
from ..compiled.intrinsics import c_function, local_array
from ..compiled.step import fused, inlined
from .random_streams_kernels import STREAM_FIELDS, below, next_word

_U = np.uint64
_32 = _U(32)
_BELOW_ONE = np.nextafter(1.0, 0.0)

new_stream = local_array(np.uint64, STREAM_FIELDS)
_new_kept = local_array(np.float64, 2)
log_64 = c_function("log", kinds.float64, kinds.float64)
exp_64 = c_function("exp", kinds.float64, kinds.float64)
_lgamma = c_function("lgamma", kinds.float64, kinds.float64)


def make_canonical64(next_word: Any) -> Any:
    """``canonical64(stream)``: float64 in [0, 1) from two words, which `next_word` takes from the stream."""

    @fused
    def canonical64(stream):
        low = np.float64(next_word(stream))
        value = (low + np.float64(next_word(stream)) * 4294967296.0) / 18446744073709551616.0
        return value if value < 1.0 else _BELOW_ONE

    return canonical64


canonical64 = make_canonical64(next_word)


@inlined
def up_to(stream, largest):
    """Uniform integer in [0, largest], largest < 2^63."""
    if largest < 0xFFFFFFFF:
        return below(stream, largest + 1)
    if largest == 0xFFFFFFFF:
        return np.int64(next_word(stream))
    top = largest >> 32  # below 2^31: one draw
    while True:
        value = np.int64((_U(below(stream, top + 1)) << _32) + next_word(stream))
        if 0 <= value <= largest:
            return value


def make_normal(real: Any, canonical: Any, log: Any) -> Any:
    """``normal(stream, kept)``: polar method; float64 kept[2] = (whether there is a value, the value) from the last pair."""
    two = real(2)

    @fused
    def normal(stream, kept):
        if kept[0] != 0.0:
            kept[0] = 0.0
            return real(kept[1])
        while True:
            x = real(np.float64(two * canonical(stream)) - 1.0)
            y = real(np.float64(two * canonical(stream)) - 1.0)
            r2 = real(real(x * x) + real(y * y))
            if not (r2 > 1.0 or r2 == 0.0):
                break
        scale = real(np.sqrt(real(real(-two * log(r2)) / r2)))
        kept[0], kept[1] = 1.0, np.float64(real(x * scale))
        return real(y * scale)

    return normal


normal64 = make_normal(np.float64, canonical64, log_64)


@inlined
def poisson_small(stream, mean):
    """A Poisson count as float64 for a mean below 12: the number of uniform draws for which their product stays above exp(-mean)."""
    limit, product, count = exp_64(-mean), 1.0, 0
    while True:
        product *= canonical64(stream)
        count += 1
        if not product > limit:
            return np.float64(count - 1)


MOST_POISSON_MEAN = 2.0**32


@inlined
def poisson_large(stream, mean):
    """A Poisson count as float64 for a mean of MOST_POISSON_MEAN or more: normally distributed; 0 if the mean is infinite, as in DALI.

    Devroye's rejection accepts counts below 2**32 only, as that of the GNU C++ library does, so it would never end.
    """
    kept = _new_kept()
    kept[0] = 0.0
    return np.floor(mean + np.sqrt(mean) * normal64(stream, kept) + 0.5) if mean < np.inf else 0.0


# The constants of a mean for Devroye's rejection: float64[POISSON_FIELDS].
(_M, _LOG_MEAN, _LOG_FACTORIAL, _ROOT, _D, _CX, _SCALE, _INVERSE, _C1, _C2, _C3, _C4, _C5, _C) = range(14)
POISSON_FIELDS = 14
FACTORIALS = 512


@inlined
def fill_factorials(logarithms):
    """``lgamma(k)`` for the integers k below FACTORIALS. A count needs two of these values."""
    logarithms[0] = np.inf
    for k in range(1, FACTORIALS):
        logarithms[k] = _lgamma(np.float64(k))


@inlined
def poisson_constants(mean, known):
    """Fill `known` (float64[POISSON_FIELDS]) for a mean of 12 or more."""
    m = np.floor(mean)
    root = np.sqrt(m)
    quarter_pi = 0.7853981633974483
    wide = np.sqrt(2 * m * log_64(32 * m / quarter_pi))
    bounded = max(6.0, min(m, wide))
    d = np.floor(bounded) + (1.0 if bounded - np.floor(bounded) >= 0.5 else 0.0)
    cx = 2 * m + d
    scale, inverse = np.sqrt(cx / 2), 1 / cx
    c1 = root * 1.2533141373155003
    c2 = np.sqrt(quarter_pi * cx) * exp_64(inverse) + c1
    c3, c4 = c2 + 1, c2 + 1 + 1
    c5 = c4 + 1.0129030479320018
    known[_M], known[_LOG_MEAN], known[_LOG_FACTORIAL], known[_ROOT] = m, log_64(mean), _lgamma(m + 1.0), root
    known[_D], known[_CX], known[_SCALE], known[_INVERSE] = d, cx, scale, inverse
    known[_C1], known[_C2], known[_C3], known[_C4], known[_C5] = c1, c2, c3, c4, c5
    known[_C] = 2 * cx * exp_64(-d * inverse * (1 + d / 2)) / d + c5


@inlined
def poisson_rejection(stream, known, factorials):
    """A Poisson count as float64 for a mean from 12 to MOST_POISSON_MEAN, by Devroye's rejection; see :func:`fill_factorials`."""
    m, log_mean, log_factorial, root, d = known[_M], known[_LOG_MEAN], known[_LOG_FACTORIAL], known[_ROOT], known[_D]
    inverse = known[_INVERSE]
    kept = _new_kept()
    kept[0] = 0.0
    while True:
        u = known[_C] * canonical64(stream)
        e = -log_64(1.0 - canonical64(stream))
        w = 0.0
        if u <= known[_C1]:
            n = normal64(stream, kept)
            x = np.floor(-abs(n) * root - 1)
            w = -n * n / 2
            if x < -m:
                continue
        elif u <= known[_C2]:
            y = 1 + abs(normal64(stream, kept)) * known[_SCALE]
            x = np.ceil(y)
            w = y * (2 - y) * inverse
            if x > d:
                continue
        elif u <= known[_C3]:
            x = -1.0
        elif u <= known[_C4]:
            x = 0.0
        elif u <= known[_C5]:
            x, w = 1.0, 0.01282051282051282
        else:
            v = -log_64(1.0 - canonical64(stream))
            y = d + v * (2 * known[_CX]) / d
            x = np.ceil(y)
            w = -d * inverse * (1 + y / 2)
        events = x + m + 1
        log_events = factorials[np.uint64(events)] if 0 <= events < FACTORIALS else _lgamma(events)
        if not w - e - x * log_mean > log_factorial - log_events and x + m < 4294967295.5:
            return np.floor(x + m + 0.49999999999999989)
