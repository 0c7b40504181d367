"""Draws of ``random.beta``: two gamma numbers each, as the GNU C++ library computes them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...compiled import kinds
from ...compiled.intrinsics import address, c_function, load_i64, local_array, smaller, store_f32, store_f64
from ...compiled.step import compiled, fused, inlined
from ...compiled.vectors import lanes
from ...sampling.philox_vectors import blocks_of
from ...sampling.random_distributions_kernels import exp_64, log_64, make_canonical64, make_normal, new_stream
from ...sampling.random_streams_kernels import batch_of, block_at, make_canonical32, parameter, parameters, stream_at, word

_U = np.uint64
_SAMPLE_STRIDE, _ELEMENT_STRIDE = _U(65537), _U(257)
_pow = c_function("pow", kinds.float64, kinds.float64, kinds.float64)
_logf = c_function("logf", kinds.float32, kinds.float32)
_expf = c_function("expf", kinds.float32, kinds.float32)
_powf = c_function("powf", kinds.float32, kinds.float32, kinds.float32)
_new_kept = local_array(np.float64, 2)


def _make_gamma(real: Any, canonical: Any, log: Any, power: Any) -> Any:
    """``gamma(stream, kept, alpha)``: Marsaglia and Tsang's method, unit scale."""
    normal = make_normal(real, canonical, log)
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

    @compiled(7)
    def draw_beta(table, key_word, hi_word, lo_word, phase_word, is_call, out):
        """random.beta(alpha=first, beta=second); arguments as for the draws of ``random_streams_kernels``."""
        key, hi, lo, phase = stream_at(key_word, hi_word, lo_word, phase_word, is_call)
        samples, count, counts, _ = batch_of(table)
        alphas, alpha_step, betas, beta_step = parameters(table)
        sample_hi = hi
        for i in range(samples):
            n = load_i64(counts + 8 * i) if counts != 0 else count
            alpha, beta = real(parameter(alphas, alpha_step, i)), real(parameter(betas, beta_step, i))
            # Large samples are drawn in parts, each with separate generators.
            parts = 1 if n < 1 << 18 else (n + 65535) // 65536
            for part in range(parts):
                beta_range(key, sample_hi, lo, phase, n * part // parts, n * (part + 1) // parts, alpha, beta, out)
            out += itemsize * n
            sample_hi += _SAMPLE_STRIDE
        return 0

    return draw_beta


draw_beta32 = _make_beta(np.float32, make_canonical32(_next_held), _logf, _expf, _powf, store_f32, 4)
draw_beta64 = _make_beta(np.float64, make_canonical64(_next_held), log_64, exp_64, _pow, store_f64, 8)


