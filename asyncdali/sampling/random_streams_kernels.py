"""Compiled part of ``random_streams``: Philox4x32-10 words and the distributions computed from them.

Three layers, each usable by other operators:

* words: :func:`philox_block`, :func:`word`, :func:`word_pair`, :func:`word_quad` at any place of the counter space
  (element-addressed operators: uniform, normal, coin_flip, noise, choice on scalars and vectors, beta);
* a sequential stream (:func:`open_stream`, :func:`next_word`, :func:`below`, :func:`range32`) for operators that draw word after word
  (crop windows, permutations, choice on matrices);
* whole-batch cfuncs, called once per batch with raw addresses.

All floating-point steps are written one operation at a time: the order of roundings is part of the stream. Numba does not contract
``a * b + c`` (no fastmath). If a single rounding is wanted, the code uses ``fma32``/``fma64``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..compiled import kinds
from ..compiled.intrinsics import (  # fmt: skip
    address,
    c_function,
    copy_bytes,
    float_of_bits,
    fma32,
    fma64,
    larger,
    load_f32,
    load_i64,
    local_array,
    smaller,
    store_f32,
    store_f64,
    store_i32,
    store_i64,
    store_u8,
    store_u16,
)
from ..compiled.step import compiled, fused, inlined
from .philox_vectors import ELEMENTS, normals_32, words_32
from .random_draw_tables import DRAW

# Codes of element types in the kernels: DALIDataType's numbers.
UINT8, UINT16, UINT32, UINT64, INT8, INT16, INT32, INT64, FLOAT, FLOAT64, BOOL = 0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 11

_U = np.uint64
_MASK = _U(0xFFFFFFFF)
_32 = _U(32)
_MULTIPLIER_0, _MULTIPLIER_1 = _U(0xD2511F53), _U(0xCD9E8D57)
_KEY_STEP_0, _KEY_STEP_1 = _U(0x9E3779B9), _U(0xBB67AE85)
_SAMPLE_STRIDE = _U(65537)
_ELEMENT_STRIDE = _U(257)
_CROP_KEY = _U(0x012345678ABCDEFE)

_F32 = np.float32
_2_POW_32 = _F32(4294967296.0)
_2_POW_MINUS_32 = _F32(2.0**-32)
_2_POW_MINUS_64 = 2.0**-64
_TWO_PI_32 = _F32(2 * math.pi)
_TWO_PI_64 = 2 * math.pi
_TINY = _F32(1e-30)
_BELOW_ONE = np.nextafter(_F32(1), _F32(0))

# The reference calls these C functions. NumPy's and Numba's own functions differ in the last bits.
_logf = c_function("logf", kinds.float32, kinds.float32)
_expf = c_function("expf", kinds.float32, kinds.float32)
_cosf = c_function("cosf", kinds.float32, kinds.float32)
_log = c_function("log", kinds.float64, kinds.float64)
_cos = c_function("cos", kinds.float64, kinds.float64)
_nextafterf = c_function("nextafterf", kinds.float32, kinds.float32, kinds.float32)
_nextafter = c_function("nextafter", kinds.float64, kinds.float64, kinds.float64)


# ---------------------------------------------------------------------------------------------------------------------------------
# Words
# ---------------------------------------------------------------------------------------------------------------------------------


@inlined
def philox_block(key, hi, lo):
    """The four 32-bit words (as uint64) of the block with 128-bit counter hi:lo."""
    c0, c1, c2, c3 = lo & _MASK, lo >> _32, hi & _MASK, hi >> _32
    k0, k1 = key & _MASK, key >> _32
    for _ in range(10):
        a = c0 * _MULTIPLIER_0
        b = c2 * _MULTIPLIER_1
        c0, c1, c2, c3 = (b >> _32) ^ c1 ^ k0, b & _MASK, (a >> _32) ^ c3 ^ k1, a & _MASK
        k0 = (k0 + _KEY_STEP_0) & _MASK
        k1 = (k1 + _KEY_STEP_1) & _MASK
    return c0, c1, c2, c3


@inlined
def block_at(key, hi, lo, block):
    """Block number `block` after counter hi:lo (the carry out of `lo` goes into `hi`)."""
    low = lo + block
    return philox_block(key, hi + _U(1) if low < lo else hi, low)


@inlined
def _pick(block, lane):
    if lane == _U(0):
        return block[0]
    if lane == _U(1):
        return block[1]
    if lane == _U(2):
        return block[2]
    return block[3]


@inlined
def word(key, hi, lo, offset):
    """Word number `offset` after counter hi:lo."""
    return _pick(block_at(key, hi, lo, offset >> _U(2)), offset & _U(3))


@inlined
def word_pair(key, hi, lo, offset):
    """Words `offset` and `offset + 1`; a second block is computed only if the pair crosses a block's end."""
    lane = offset & _U(3)
    block = block_at(key, hi, lo, offset >> _U(2))
    if lane == _U(3):
        return block[3], block_at(key, hi, lo, (offset >> _U(2)) + _U(1))[0]
    return _pick(block, lane), _pick(block, lane + _U(1))


@inlined
def word_quad(key, hi, lo, offset):
    """Words `offset` to `offset + 3`."""
    lane = offset & _U(3)
    a = block_at(key, hi, lo, offset >> _U(2))
    if lane == _U(0):
        return a
    b = block_at(key, hi, lo, (offset >> _U(2)) + _U(1))
    if lane == _U(1):
        return a[1], a[2], a[3], b[0]
    if lane == _U(2):
        return a[2], a[3], b[0], b[1]
    return a[3], b[0], b[1], b[2]


# ---------------------------------------------------------------------------------------------------------------------------------
# Sequential stream: uint64[9] = key, hi, lo, offset of the next word, number of the held block + 1, its four words
# ---------------------------------------------------------------------------------------------------------------------------------

STREAM_FIELDS = 9
_new_stream = local_array(np.uint64, STREAM_FIELDS)


@inlined
def open_stream(stream, key, hi, lo, offset):
    """Make `stream` (uint64[STREAM_FIELDS]) continue with word `offset` after counter hi:lo."""
    stream[0], stream[1], stream[2], stream[3], stream[4] = key, hi, lo, offset, _U(0)


@inlined
def next_word(stream):
    """The next 32-bit word, as uint64."""
    offset = stream[3]
    block = offset >> _U(2)
    if stream[4] != block + _U(1):
        stream[5], stream[6], stream[7], stream[8] = block_at(stream[0], stream[1], stream[2], block)
        stream[4] = block + _U(1)
    stream[3] = offset + _U(1)
    return stream[5 + np.int64(offset & _U(3))]


@inlined
def below(stream, n):
    """Uniform integer in [0, n), 1 <= n < 2^32: multiply-high, redrawing the biased part."""
    n = _U(n)
    product = next_word(stream) * n
    if product & _MASK < n:
        limit = (_U(1 << 32) - n) % n
        while product & _MASK < limit:
            product = next_word(stream) * n
    return np.int64(product >> _32)


def make_canonical32(next_word: Any) -> Any:
    """``canonical32(stream)``: float32 in [0, 1) from one word, which `next_word` takes from the stream."""

    @fused
    def canonical32(stream):
        value = _F32(next_word(stream)) * _2_POW_MINUS_32
        return value if value < _F32(1) else _BELOW_ONE

    return canonical32


canonical32 = make_canonical32(next_word)


@inlined
def range32(stream, a, b):
    """float32 in [a, b), two roundings."""
    return _F32(_F32(canonical32(stream) * _F32(b - a)) + a)


# ---------------------------------------------------------------------------------------------------------------------------------
# Element types
# ---------------------------------------------------------------------------------------------------------------------------------


@inlined
def is_wide(kind):
    """Whether the working type is float64: float64 and the 4- and 8-byte integers (else float32)."""
    return kind == FLOAT64 or kind == INT32 or kind == UINT32 or kind == INT64 or kind == UINT64


@inlined
def _limits(kind):
    """Smallest and largest value of an integer kind, as float64 (64-bit maxima round up to the power of two)."""
    if kind == UINT8:
        return 0.0, 255.0
    if kind == INT8:
        return -128.0, 127.0
    if kind == UINT16:
        return 0.0, 65535.0
    if kind == INT16:
        return -32768.0, 32767.0
    if kind == UINT32:
        return 0.0, 4294967295.0
    if kind == INT32:
        return -2147483648.0, 2147483647.0
    if kind == UINT64:
        return 0.0, 18446744073709551616.0
    return -9223372036854775808.0, 9223372036854775808.0


@inlined
def _saturated(value, kind):
    """Round half away from zero, then clamp to the integer `kind`; gives the bits as int64. NaN becomes 0."""
    whole = np.trunc(value)
    if abs(value - whole) >= 0.5:
        whole += math.copysign(1.0, value)
    least, most = _limits(kind)
    if whole >= most:
        return np.int64(-1) if kind == UINT64 else np.int64(0x7FFFFFFFFFFFFFFF) if kind == INT64 else np.int64(most)
    if whole <= least:
        return np.int64(least)
    if np.isnan(whole):
        return np.int64(0)
    return np.int64(_U(whole)) if kind == UINT64 else np.int64(whole)


@inlined
def store_value(out, index, kind, value):
    """Convert `value` (float64 or an exact float32) to `kind` and store it as element `index` of the array at `out`."""
    if kind == FLOAT:
        store_f32(out + 4 * index, _F32(value))
    elif kind == FLOAT64:
        store_f64(out + 8 * index, np.float64(value))
    elif kind == BOOL:
        store_u8(out + index, np.uint8(1 if value != 0 else 0))
    else:
        bits = _saturated(np.float64(value), kind)
        if kind == UINT8 or kind == INT8:
            store_u8(out + index, np.uint8(bits))
        elif kind == UINT16 or kind == INT16:
            store_u16(out + 2 * index, np.uint16(bits))
        elif kind == INT32 or kind == UINT32:
            store_i32(out + 4 * index, np.int32(bits))
        else:
            store_i64(out + 8 * index, bits)


@inlined
def cast_bound(value, kind):
    """A float32 range bound as the reference casts it to the output type (x86-64 C cast), then widened to float64.

    Truncates toward zero. Unsigned types wrap, int32 and int64 overflow to the most negative value, 1- and 2-byte types
    become 0 beyond the int32 range.
    """
    v = np.float64(value)
    if kind == FLOAT or kind == FLOAT64:
        return v
    if kind == UINT64 and 9223372036854775808.0 <= v < 18446744073709551616.0:
        return v
    bits = np.int64(v) if -9223372036854775808.0 <= v < 9223372036854775808.0 else np.int64(-9223372036854775808)
    if kind == INT64:
        return np.float64(bits)
    if kind == UINT64:
        return np.float64(_U(bits))
    if kind == UINT32:
        return np.float64(np.uint32(bits))
    inside = -2147483648.0 <= np.trunc(v) <= 2147483647.0
    if kind == INT32:
        return np.float64(bits) if inside else -2147483648.0
    small = bits if inside else np.int64(0)
    if kind == UINT8:
        return np.float64(np.uint8(small))
    if kind == INT8:
        return np.float64(np.int8(small))
    if kind == UINT16:
        return np.float64(np.uint16(small))
    return np.float64(np.int16(small))


# ---------------------------------------------------------------------------------------------------------------------------------
# Element-addressed distributions, one batch per call.
#
# Common arguments:
# - key, hi, lo, phase: the position
# - samples; count: elements of each sample; counts: address of an int64 array of elements per sample, or 0 to use `count`
# - each float32 parameter, with its step in bytes: an address and 4 (a value per sample), or the bits of one value and 0
# - out, kind: address and element type of the output
# ---------------------------------------------------------------------------------------------------------------------------------


@inlined
def parameter(place, step, sample):
    """The float32 parameter of one sample."""
    return load_f32(place + step * sample) if step != 0 else float_of_bits(place)


_new_words, _new_numbers = local_array(np.uint32, ELEMENTS), local_array(np.float32, ELEMENTS)


@inlined
def next_words(key, hi, lo, offset, left, words):
    """Write the words of the next elements to words[0 ...]; the first element has word `offset`.

    Returns the number of elements, at most ELEMENTS and `left`.
    """
    begin = np.int64(-offset & _U(3))
    if begin == 0 and left >= ELEMENTS:
        words_32(np.int64(key), np.int64(hi), np.int64(lo), np.int64(offset), address(words))
        return np.int64(ELEMENTS)
    count = smaller(begin if begin > 0 else left, left)
    for k in range(count):
        words[k] = np.uint32(word(key, hi, lo, offset))
        offset += _ELEMENT_STRIDE
    return np.int64(count)


@inlined
def uniform64(key, hi, lo, offset, low, factor, top):
    """One float64 uniform from two words, the low half first."""
    w0, w1 = word_pair(key, hi, lo, offset)
    return smaller(fma64(np.float64(w0 | w1 << _32), factor, low), top)


@inlined
def _span(a, b, wide):
    """(low, factor, top) of the range [a, b), computed in the working type and returned as float64."""
    if wide:
        low, top = a, _nextafter(b, a)
        if low > top:
            low, top = top, low
        return low, (top - low) * _2_POW_MINUS_64, top
    low32, top32 = _F32(a), _nextafterf(_F32(b), _F32(a))
    if low32 > top32:
        low32, top32 = top32, low32
    return np.float64(low32), np.float64(_F32(_F32(top32 - low32) * _2_POW_MINUS_32)), np.float64(top32)


@inlined
def _uniform_sample(key, hi, lo, offset, n, span, out, at, kind):
    """`n` elements of one sample, written from element `at` of `out`."""
    low, factor, top = span
    if is_wide(kind):
        for e in range(n):
            store_value(out, at + e, kind, uniform64(key, hi, lo, offset, low, factor, top))
            offset += _ELEMENT_STRIDE
    else:
        low32, factor32, top32 = _F32(low), _F32(factor), _F32(top)
        words, numbers, done = _new_words(), _new_numbers(), 0
        while done < n:
            made = next_words(key, hi, lo, offset, n - done, words)
            for k in range(made):
                numbers[k] = smaller(fma32(_F32(words[k]), factor32, low32), top32)
            if kind == FLOAT:
                copy_bytes(out + 4 * (at + done), address(numbers), 4 * made)
            else:
                for k in range(made):
                    store_value(out, at + done + k, kind, numbers[k])
            offset += _ELEMENT_STRIDE * _U(made)
            done += made


# Kernels of whole batches: a table DRAW, a position, whether the stream begins there (0) or is the one that a call makes of the next seven
# words there (1), and the address of the output, which is flat.

of = DRAW.at


@inlined
def batch_of(table):
    """Samples, elements of each, their addresses or 0, and the element type."""
    return load_i64(table + of.samples), load_i64(table + of.count), load_i64(table + of.counts), load_i64(table + of.kind)


@inlined
def stream_at(key, hi, lo, phase, is_call):
    """Key, counter and phase of a stream, as uint64. `is_call`: they are made of the next seven words at this position."""
    if is_call == 0:
        return _U(key), _U(hi), _U(lo), _U(phase)
    a, b, c, d = word_quad(_U(key), _U(hi), _U(lo), _U(phase))
    e, f, g, _ = word_quad(_U(key), _U(hi), _U(lo), _U(phase) + _U(4))
    return a | b << _32, e | f << _32, c | d << _32, g & _U(3)


@inlined
def parameters(table):
    """Both parameters with their steps."""
    first, second = load_i64(table + of.first), load_i64(table + of.second)
    return first, load_i64(table + of.first_step), second, load_i64(table + of.second_step)


@compiled(7)
def draw_uniform(table, key_word, hi_word, lo_word, phase_word, is_call, out):
    """random.uniform(range=[first, second]). Returns 0, or 1 + the first sample whose range is empty (nothing after it is written)."""
    key, hi, lo, phase = stream_at(key_word, hi_word, lo_word, phase_word, is_call)
    samples, count, counts, kind = batch_of(table)
    lows, low_step, highs, high_step = parameters(table)
    at = 0
    sample_hi = hi
    span = (0.0, 0.0, 0.0)
    for i in range(samples):
        n = load_i64(counts + 8 * i) if counts != 0 else count
        if i == 0 or low_step != 0 or high_step != 0:
            a, b = parameter(lows, low_step, i), parameter(highs, high_step, i)
            if not b > a:
                return i + 1
            span = _span(cast_bound(a, kind), cast_bound(b, kind), is_wide(kind))
        _uniform_sample(key, sample_hi, lo, phase, n, span, out, at, kind)
        at += n
        sample_hi += _SAMPLE_STRIDE
    return 0


@compiled(7)
def draw_values(table, key_word, hi_word, lo_word, phase_word, is_call, out):
    """random.uniform(values=first): sample i takes from its `lengths[i]` values (stored one sample after another), or all samples
    from the same `length` values when `lengths` is 0."""
    key, hi, lo, phase = stream_at(key_word, hi_word, lo_word, phase_word, is_call)
    samples, count, counts, kind = batch_of(table)
    values, length, lengths = load_i64(table + of.first), load_i64(table + of.first_step), load_i64(table + of.second)
    at = 0
    sample_hi = hi
    for i in range(samples):
        n = load_i64(counts + 8 * i) if counts != 0 else count
        size = load_i64(lengths + 8 * i) if lengths != 0 else length
        offset = phase
        for e in range(n):
            index = np.int64((word(key, sample_hi, lo, offset) * _U(size)) >> _32)
            store_value(out, at + e, kind, np.float64(load_f32(values + 4 * index)))
            offset += _ELEMENT_STRIDE
        if lengths != 0:
            values += 4 * size
        at += n
        sample_hi += _SAMPLE_STRIDE
    return 0


@compiled(5)
def draw_position(key, hi, lo, phase, out):
    """The key, both halves of the counter and the phase of the stream of a call; uint64[4]."""
    made = stream_at(key, hi, lo, phase, 1)
    for k in range(4):
        store_i64(out + 8 * k, np.int64(made[k]))
    return 0


@inlined
def _coin_threshold(probability):
    """Largest word that means "true". The product is float32, out-of-range probabilities wrap like the C cast."""
    t = _F32(probability * _2_POW_32)
    if t >= _2_POW_32:
        return _MASK
    if not t > _F32(-9.2e18):  # NaN, or beyond the range of the 64-bit cast.
        return _U(0)
    return _U(np.int64(t)) & _MASK


@compiled(7)
def draw_coins(table, key_word, hi_word, lo_word, phase_word, is_call, out):
    """random.coin_flip(probability=first)."""
    key, hi, lo, phase = stream_at(key_word, hi_word, lo_word, phase_word, is_call)
    samples, count, counts, kind = batch_of(table)
    probabilities, step = load_i64(table + of.first), load_i64(table + of.first_step)
    at = 0
    sample_hi = hi
    for i in range(samples):
        n = load_i64(counts + 8 * i) if counts != 0 else count
        threshold = _coin_threshold(parameter(probabilities, step, i))
        offset = phase
        words, done = _new_words(), 0
        while done < n:
            made = next_words(key, sample_hi, lo, offset, n - done, words)
            if kind == INT32:
                for k in range(made):
                    store_i32(out + 4 * (at + done + k), np.int32(1 if words[k] <= threshold else 0))
            else:
                for k in range(made):
                    store_value(out, at + done + k, kind, 1.0 if words[k] <= threshold else 0.0)
            offset += _ELEMENT_STRIDE * _U(made)
            done += made
        at += n
        sample_hi += _SAMPLE_STRIDE
    return 0


@inlined
def normal32(key, hi, lo, offset):
    """Standard normal in float32: the cosine half of Box-Muller over two words."""
    w0, w1 = word_pair(key, hi, lo, offset)
    u1, u2 = _F32(_F32(w0) * _2_POW_MINUS_32), _F32(_F32(w1) * _2_POW_MINUS_32)
    if u1 == _F32(0):
        u1, u2 = u2, u1
        if u1 == _F32(0):
            u1 = _TINY
    radius = _F32(np.sqrt(_F32(_F32(-2) * _logf(u1))))
    return _F32(radius * _cosf(_F32(_TWO_PI_32 * u2)))


@inlined
def normal64(key, hi, lo, offset):
    """Standard normal in float64 over four words."""
    w0, w1, w2, w3 = word_quad(key, hi, lo, offset)
    u1, u2 = np.float64(w0 | w1 << _32) * _2_POW_MINUS_64, np.float64(w2 | w3 << _32) * _2_POW_MINUS_64
    if u1 == 0.0:
        u1, u2 = u2, u1
        if u1 == 0.0:
            u1 = np.float64(_TINY)
    return np.sqrt(-2.0 * _log(u1)) * _cos(_TWO_PI_64 * u2)


@inlined
def _normal_sample(key, hi, lo, offset, n, mean, deviation, out, at, kind):
    """Elements of one sample in float32, one by one."""
    for e in range(n):
        store_value(out, at + e, kind, fma32(normal32(key, hi, lo, offset), deviation, mean))
        offset += _ELEMENT_STRIDE


@compiled(7)
def draw_normal_vectors(table, key_word, hi_word, lo_word, phase_word, is_call, out):
    """random.normal(mean=first, stddev=second) of types that are drawn in float32. Use it only if ``c_library.same_as_platform()``."""
    key, hi, lo, phase = stream_at(key_word, hi_word, lo_word, phase_word, is_call)
    samples, count, counts, kind = batch_of(table)
    means, mean_step, deviations, deviation_step = parameters(table)
    at, sample_hi, numbers = 0, hi, _new_numbers()
    for i in range(samples):
        n = load_i64(counts + 8 * i) if counts != 0 else count
        mean, deviation = parameter(means, mean_step, i), parameter(deviations, deviation_step, i)
        offset, done = phase, smaller(np.int64(-phase & _U(3)), n)
        _normal_sample(key, sample_hi, lo, offset, done, mean, deviation, out, at, kind)
        offset += _ELEMENT_STRIDE * _U(done)
        while done + ELEMENTS <= n:
            normals_32(np.int64(key), np.int64(sample_hi), np.int64(lo), np.int64(offset), address(numbers))
            for k in range(ELEMENTS):
                numbers[k] = fma32(numbers[k], deviation, mean)
            if kind == FLOAT:
                copy_bytes(out + 4 * (at + done), address(numbers), 4 * ELEMENTS)
            else:
                for k in range(ELEMENTS):
                    store_value(out, at + done + k, kind, numbers[k])
            done += ELEMENTS
            offset += _ELEMENT_STRIDE * _U(ELEMENTS)
        _normal_sample(key, sample_hi, lo, offset, n - done, mean, deviation, out, at + done, kind)
        at += n
        sample_hi += _SAMPLE_STRIDE
    return 0


@compiled(7)
def draw_normal(table, key_word, hi_word, lo_word, phase_word, is_call, out):
    """random.normal(mean=first, stddev=second)."""
    key, hi, lo, phase = stream_at(key_word, hi_word, lo_word, phase_word, is_call)
    samples, count, counts, kind = batch_of(table)
    means, mean_step, deviations, deviation_step = parameters(table)
    at = 0
    sample_hi = hi
    wide = is_wide(kind)
    for i in range(samples):
        n = load_i64(counts + 8 * i) if counts != 0 else count
        mean, deviation = parameter(means, mean_step, i), parameter(deviations, deviation_step, i)
        offset = phase
        for e in range(n):
            if wide:
                z = normal64(key, sample_hi, lo, offset)
                store_value(out, at + e, kind, fma64(z, np.float64(deviation), np.float64(mean)))
            else:
                z32 = normal32(key, sample_hi, lo, offset)
                store_value(out, at + e, kind, fma32(z32, deviation, mean))
            offset += _ELEMENT_STRIDE
        at += n
        sample_hi += _SAMPLE_STRIDE
    return 0


# ---------------------------------------------------------------------------------------------------------------------------------
# Crop windows
# ---------------------------------------------------------------------------------------------------------------------------------


@inlined
def _round_extent(value):
    """float32 >= 0 to the nearest integer (half up), at least 1."""
    whole = np.floor(np.float64(value))
    return larger(np.int64(whole) + (1 if np.float64(value) - whole >= 0.5 else 0), 1)


@inlined
def _clipped_extents(height, width, widest, tallest, r0, r1, a1):
    """The window if every attempt failed: the largest window of an allowed shape, scaled down to the largest area."""
    shape = _F32(_F32(width) / _F32(height))
    h, w = height, width
    if shape > r1:
        w = widest
    elif shape < r0:
        h = tallest
    most = _F32(_F32(a1 * _F32(width)) * _F32(height))
    scale = _F32(np.sqrt(smaller(_F32(1), _F32(most / _F32(h * w)))))
    return larger(np.int64(_F32(_F32(h) * scale)), 1), larger(np.int64(_F32(_F32(w) * scale)), 1)


@inlined
def _window_extents(stream, height, width, r0, r1, a0, a1, attempts):
    """Extents (h, w) of one window; draws area and ratio, in that order, per attempt."""
    widest = larger(np.int64(_F32(_F32(height) * r1)), 1)
    tallest = larger(np.int64(_F32(_F32(width) * _F32(_F32(1) / r0))), 1)
    least = _F32(_F32(width * height) * a0)
    if _F32(height * widest) < least:
        return height, widest
    if _F32(width * tallest) < least:
        return tallest, width
    log_r0, log_r1 = _logf(r0), _logf(r1)
    for _ in range(attempts):
        area = _F32(range32(stream, a0, a1) * _F32(height * width))
        ratio = _expf(range32(stream, log_r0, log_r1))
        w = _round_extent(_F32(np.sqrt(_F32(area * ratio))))
        h = _round_extent(_F32(np.sqrt(_F32(area / ratio))))
        got = _F32(_F32(w) / _F32(h))
        if w <= width and h <= height and r0 <= got <= r1:
            return h, w
    return _clipped_extents(height, width, widest, tallest, r0, r1, a1)


@compiled(12, brief=True)
def draw_windows(key, hi, lo, phase, samples, heights, widths, stride, ranges, attempts, anchors, extents):
    """Crop windows: `heights`, `widths` int64[samples], `stride` bytes apart; `ranges` float32[4] = aspect range, area range; `anchors`
    and `extents` int32[samples, 2] out, (y, x) and (h, w). An empty image gets an empty window.

    Returns 0, or the length of an image that is too long for INT32."""
    r0, r1, a0, a1 = load_f32(ranges), load_f32(ranges + 4), load_f32(ranges + 8), load_f32(ranges + 12)
    stream = _new_stream()
    sample_hi = _U(hi)
    for i in range(samples):
        height, width = load_i64(heights + stride * i), load_i64(widths + stride * i)
        y = x = h = w = np.int64(0)
        if height > 0x7FFFFFFF or width > 0x7FFFFFFF:
            return larger(height, width)
        if height > 0 and width > 0:
            open_stream(stream, _U(key) ^ _CROP_KEY, sample_hi, _U(lo), _U(phase))
            h, w = _window_extents(stream, height, width, r0, r1, a0, a1, attempts)
            y = below(stream, height - h + 1)
            x = below(stream, width - w + 1)
        store_i32(anchors + 8 * i, np.int32(y))
        store_i32(anchors + 8 * i + 4, np.int32(x))
        store_i32(extents + 8 * i, np.int32(h))
        store_i32(extents + 8 * i + 4, np.int32(w))
        sample_hi += _SAMPLE_STRIDE
    return 0
