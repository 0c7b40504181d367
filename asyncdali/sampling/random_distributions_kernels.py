"""Distributions of the GNU C++ library over a stream of 32-bit words, as DALI uses them, and draws from them.

Rounding follows that library: floats are computed in the output's precision, some comparisons in float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..compiled import kinds
from ..compiled.intrinsics import (  # fmt: skip
    address,
    c_function,
    copy_bytes,
    load_f64,
    load_i32,
    load_i64,
    local_array,
    smaller,
    store_f32,
    store_f64,
    store_i32,
    store_i64,
)
from ..compiled.step import compiled, fused, inlined
from ..compiled.vectors import lanes
from .philox_vectors import ELEMENTS, blocks_of
from .random_choice_tables import CHOICE
from .random_streams_kernels import (
    STREAM_FIELDS,
    below,
    block_at,
    make_canonical32,
    next_word,
    next_words,
    open_stream,
    parameter,
    store_value,
    word,
)

_U = np.uint64
_32 = _U(32)
_SAMPLE_STRIDE, _ELEMENT_STRIDE = _U(65537), _U(257)
_BELOW_ONE = np.nextafter(1.0, 0.0)

new_stream = local_array(np.uint64, STREAM_FIELDS)
_log = c_function("log", kinds.float64, kinds.float64)
exp_64 = c_function("exp", kinds.float64, kinds.float64)
_pow = c_function("pow", kinds.float64, kinds.float64, kinds.float64)
_lgamma = c_function("lgamma", kinds.float64, kinds.float64)
_logf = c_function("logf", kinds.float32, kinds.float32)
_expf = c_function("expf", kinds.float32, kinds.float32)
_powf = c_function("powf", kinds.float32, kinds.float32, kinds.float32)


def _make_canonical64(next_word: Any) -> Any:
    """``canonical64(stream)``: float64 in [0, 1) from two words, which `next_word` takes from the stream."""

    @fused
    def canonical64(stream):
        low = np.float64(next_word(stream))
        value = (low + np.float64(next_word(stream)) * 4294967296.0) / 18446744073709551616.0
        return value if value < 1.0 else _BELOW_ONE

    return canonical64


canonical64 = _make_canonical64(next_word)


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


# ---------------------------------------------------------------------------------------------------------------- normal and gamma


def _make_normal(real: Any, canonical: Any, log: Any) -> Any:
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


def _make_gamma(real: Any, canonical: Any, log: Any, power: Any) -> Any:
    """``gamma(stream, kept, alpha)``: Marsaglia and Tsang's method, unit scale."""
    normal = _make_normal(real, canonical, log)
    one, nine, third = real(1), real(9), real(real(1) / real(3))

    @fused
    def gamma(stream, kept, alpha):
        raised = real(np.float64(alpha) + 1.0) if alpha < one else alpha
        a1 = real(raised - third)
        a2 = real(one / real(np.sqrt(real(nine * a1))))
        while True:
            n, v = real(0), real(0)
            while not v > 0.0:
                n = normal(stream, kept)
                v = real(one + real(a2 * n))
            v = real(real(v * v) * v)
            u = canonical(stream)
            nn = np.float64(n)
            if np.float64(u) <= 1.0 - 0.0331 * nn * nn * nn * nn:
                break
            if np.float64(log(u)) <= 0.5 * nn * nn + np.float64(a1) * (1.0 - np.float64(v) + np.float64(log(v))):
                break
        if raised == alpha:
            return real(a1 * v)
        u = canonical(stream)
        while u == 0.0:
            u = canonical(stream)
        return real(real(power(u, real(one / alpha)) * a1) * v)

    return gamma


_new_kept = local_array(np.float64, 2)
normal64 = _make_normal(np.float64, canonical64, _log)


# Every second beta number takes two pairs of normals, at least six words, and begins anywhere in its first block. The first three blocks of
# an element nearly always suffice, two would lack half a word per number. Therefore these blocks are computed for _HELD elements at a time,
# as vectors: one block alone takes as long as the other arithmetic of a number.
_HELD, _ROWS, _HELD_BLOCKS = 32, 4, 3
_LANES = _HELD // _ROWS  # elements of a row are 4 apart, see ``philox_vectors``
_HELD_WORDS = 4 * _HELD_BLOCKS
_FEW = 8  # fewer elements take less time one by one
_new_held = local_array(np.uint64, _HELD * _HELD_WORDS)
_blocks, _store_words = blocks_of(_LANES), lanes("uint64", _LANES).store
_row = _LANES * 8


@inlined
def _hold(held, key, hi, lo, offset, count):
    """Compute the first blocks of `count` elements, of which the first begins with word `offset`.

    Word w of element 4 k + r is held[_LANES (_HELD_WORDS r + w) + k].
    """
    if count >= _FEW:
        at = address(held)
        for r in range(_ROWS):
            for b in range(_HELD_BLOCKS):
                words = _blocks(np.int64(key), np.int64(hi), np.int64(lo), np.int64((offset >> _U(2)) + _U(b)))
                for w in range(4):
                    _store_words(at + (_HELD_WORDS * r + 4 * b + w) * _row, words[w])
            offset += _ELEMENT_STRIDE
        return
    for e in range(count):
        at = _HELD_WORDS * _LANES * (e % _ROWS) + e // _ROWS
        for b in range(_HELD_BLOCKS):
            words = block_at(key, hi, lo, (offset >> _U(2)) + _U(b))
            for w in range(4):
                held[at + _LANES * (4 * b + w)] = words[w]
        offset += _ELEMENT_STRIDE


@fused
def _next_held(stream):
    """``next_word`` of a stream whose first blocks are held: uint64[6] = key, hi, lo, offset of the next word, address of word 0,
    number of the first block."""
    offset = stream[3]
    stream[3] = offset + _U(1)
    place = offset - (stream[5] << _U(2))
    if place < _U(_HELD_WORDS):
        return _U(load_i64(np.int64(stream[4] + place * _U(_row))))
    return word(stream[0], stream[1], stream[2], offset)


def _make_beta(real: Any, canonical: Any, log: Any, exp: Any, power: Any, store: Any, itemsize: int) -> Any:
    gamma, one = _make_gamma(real, canonical, log, power), real(1)

    @inlined
    def beta_range(key, hi, lo, phase, begin, end, alpha, beta, out):
        """Elements begin..end-1 of a sample. The gamma generators keep a value from one element to the next."""
        stream, kept_a, kept_b, held = new_stream(), _new_kept(), _new_kept(), _new_held()
        kept_a[0] = kept_b[0] = 0.0
        small = alpha < one and beta < one
        ratio = real(beta / alpha)
        stream[0], stream[1], stream[2] = key, hi, lo
        for e in range(begin, end):
            offset, k = phase + _ELEMENT_STRIDE * _U(e), (e - begin) % _HELD
            if k == 0:
                _hold(held, key, hi, lo, offset, smaller(end - e, _HELD))
            stream[3], stream[5] = offset, offset >> _U(2)
            stream[4] = _U(address(held) + 8 * (_HELD_WORDS * _LANES * (k % _ROWS) + k // _ROWS))
            a = gamma(stream, kept_a, real(alpha + one) if small else alpha)
            b = gamma(stream, kept_b, real(beta + one) if small else beta)
            if small:
                la = log(real(one - canonical(stream)))
                lb = log(real(one - canonical(stream)))
                scaled = real(la * ratio)
                if scaled < lb:
                    a = real(a * exp(real(real(scaled - lb) / beta)))
                else:
                    b = real(b * exp(real(real(lb - scaled) / beta)))
            store(out + itemsize * e, real(a / real(a + b)))

    @compiled(13)
    def draw_beta(key, hi, lo, phase, samples, count, counts, alphas, alpha_step, betas, beta_step, out, unused):
        """random.beta; arguments as for the other draws of ``random_streams_kernels``."""
        sample_hi = _U(hi)
        for i in range(samples):
            n = load_i64(counts + 8 * i) if counts != 0 else count
            alpha, beta = real(parameter(alphas, alpha_step, i)), real(parameter(betas, beta_step, i))
            # Large samples are drawn in parts, each with separate generators.
            parts = 1 if n < 1 << 18 else (n + 65535) // 65536
            for part in range(parts):
                beta_range(_U(key), sample_hi, _U(lo), _U(phase), n * part // parts, n * (part + 1) // parts, alpha, beta, out)
            out += itemsize * n
            sample_hi += _SAMPLE_STRIDE
        return 0

    return draw_beta


draw_beta32 = _make_beta(np.float32, make_canonical32(_next_held), _logf, _expf, _powf, store_f32, 4)
draw_beta64 = _make_beta(np.float64, _make_canonical64(_next_held), _log, exp_64, _pow, store_f64, 8)


# ------------------------------------------------------------------------------------------------------------------------- choice


@inlined
def _pick(stream, cumulated, weights, population):
    """An index: the first whose cumulative weight (float64[weights]) reaches a draw; without weights, any index below `population`."""
    if weights == 0:
        return up_to(stream, population - 1)
    if weights == 1:
        return np.int64(0)
    draw = canonical64(stream)
    low, high = np.int64(0), np.int64(weights - 1)
    while low < high:
        middle = (low + high) // 2
        if load_f64(cumulated + 8 * middle) >= draw:
            high = middle
        else:
            low = middle + 1
    return low


choice = CHOICE.at
_new_words = local_array(np.uint32, ELEMENTS)


@inlined
def _copy_element(target, source, size):
    """Copy an element. The usual sizes take one load, a call of ``memcpy`` several nanoseconds."""
    if size == 8:
        store_i64(target, load_i64(source))
    elif size == 4:
        store_i32(target, load_i32(source))
    else:
        copy_bytes(target, source, size)


@inlined
def _give(out, index, kind, source, size):
    """Store the picked element, or the index itself in a type of number `kind`."""
    if kind < 0:
        _copy_element(out, source + size * index, size)
    elif size == 8:
        store_i64(out, index)
    else:
        store_value(out, 0, kind, np.float64(index))


@inlined
def _pick_evenly(key, hi, lo, phase, picks, population, kind, source, size, out):
    """Picks with equal probability. The first word of each element decides, except where ``below`` would draw again."""
    words, stream = _new_words(), new_stream()
    done = np.int64(0)
    while done < picks:
        offset = phase + _ELEMENT_STRIDE * _U(done)
        count = next_words(key, hi, lo, offset, picks - done, words)
        for k in range(count):
            product = _U(words[k]) * _U(population)
            index = np.int64(product >> _32)
            if product & _U(0xFFFFFFFF) < _U(population):
                open_stream(stream, key, hi, lo, offset + _ELEMENT_STRIDE * _U(k))
                index = below(stream, population)
            _give(out, index, kind, source, size)
            out += size
        done += count


@compiled(1)
def draw_choices(table):
    """random.choice; the table is CHOICE."""
    stream = new_stream()
    sample_hi = _U(load_i64(table + choice.stream_hi))
    key, lo = _U(load_i64(table + choice.stream_key)), _U(load_i64(table + choice.stream_lo))
    phase = _U(load_i64(table + choice.stream_phase))
    kind, shared, out = load_i64(table + choice.kind), load_i64(table + choice.shared), load_i64(table + choice.output)
    for i in range(load_i64(table + choice.samples)):
        population = load_i64(load_i64(table + choice.populations) + 8 * i)
        size = load_i64(load_i64(table + choice.sizes) + 8 * i)
        source = load_i64(load_i64(table + choice.inputs) + 8 * i)
        cumulated, weights = load_i64(table + choice.cumulated), 0
        if cumulated != 0:
            first = load_i64(load_i64(table + choice.firsts) + 8 * i)
            weights = load_i64(load_i64(table + choice.firsts) + 8 * (i + 1)) - first
            cumulated += 8 * first
        picks = load_i64(load_i64(table + choice.picks) + 8 * i)
        if shared == 0 and weights == 0 and population <= 0xFFFFFFFF:
            _pick_evenly(key, sample_hi, lo, phase, picks, population, kind, source, size, out)
            out += size * picks
        else:
            open_stream(stream, key, sample_hi, lo, phase)
            for e in range(picks):
                if shared == 0:
                    open_stream(stream, key, sample_hi, lo, phase + _ELEMENT_STRIDE * _U(e))
                _give(out, _pick(stream, cumulated, weights, population), kind, source, size)
                out += size
        sample_hi += _SAMPLE_STRIDE
    return 0


# ------------------------------------------------------------------------------------------------------------------------ Poisson


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
    wide = np.sqrt(2 * m * _log(32 * m / quarter_pi))
    bounded = max(6.0, min(m, wide))
    d = np.floor(bounded) + (1.0 if bounded - np.floor(bounded) >= 0.5 else 0.0)
    cx = 2 * m + d
    scale, inverse = np.sqrt(cx / 2), 1 / cx
    c1 = root * 1.2533141373155003
    c2 = np.sqrt(quarter_pi * cx) * exp_64(inverse) + c1
    c3, c4 = c2 + 1, c2 + 1 + 1
    c5 = c4 + 1.0129030479320018
    known[_M], known[_LOG_MEAN], known[_LOG_FACTORIAL], known[_ROOT] = m, _log(mean), _lgamma(m + 1.0), root
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
        e = -_log(1.0 - canonical64(stream))
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
            v = -_log(1.0 - canonical64(stream))
            y = d + v * (2 * known[_CX]) / d
            x = np.ceil(y)
            w = -d * inverse * (1 + y / 2)
        events = x + m + 1
        log_events = factorials[np.uint64(events)] if 0 <= events < FACTORIALS else _lgamma(events)
        if not w - e - x * log_mean > log_factorial - log_events and x + m < 4294967295.5:
            return np.floor(x + m + 0.49999999999999989)
