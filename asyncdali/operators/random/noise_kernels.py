"""Compiled steps of the noise operators. The position of an element in its sample determines its draws."""

from __future__ import annotations

from functools import cache

import numpy as np

from ...compiled.addresses import address_of
from ...compiled.c_library import same_as_platform
from ...compiled.convert_kernels import converter, view
from ...compiled.intrinsics import address, fma32, fma64, load_f32, load_i64, local_array, smaller, view_f64
from ...compiled.step import Compiled, compiled, inlined, step_variant
from ...compiled.vectors import lanes
from ...sampling.philox_vectors import ELEMENTS, blocks_of, normals_32, words_32
from ...sampling.random_distributions_kernels import (
    FACTORIALS,
    MOST_POISSON_MEAN,
    POISSON_FIELDS,
    exp_64,
    fill_factorials,
    new_stream,
    poisson_constants,
    poisson_large,
    poisson_rejection,
    poisson_small,
)
from ...sampling.random_streams import KINDS
from ...sampling.random_streams_kernels import cast_bound, normal32, normal64, open_stream, store_value, word
from .noise import NOISE

at = NOISE.at
_U = np.uint64
_SAMPLE_STRIDE, _ELEMENT_STRIDE = _U(65537), _U(257)
_2_POW_MINUS_32 = np.float32(2.0**-32)
_new_numbers, _new_words = local_array(np.float32, ELEMENTS), local_array(np.uint32, ELEMENTS)
_new_factorials, _new_constants = local_array(np.float64, FACTORIALS), local_array(np.float64, 256 * POISSON_FIELDS)
_new_limits, _new_reals = local_array(np.float64, 256), local_array(np.float64, 16)
_WIDE = ("int32", "uint32", "int64", "uint64", "float64")


@cache
def gaussian_step(dtype: str) -> Compiled:
    """noise.gaussian for the NumPy name of a dtype."""
    elements, wide = view(dtype), dtype in _WIDE
    convert = converter("float64" if wide else "float32", dtype)
    vectors = same_as_platform() and not wide

    @inlined
    def add_some(source, out, begin, end, key, hi, lo, offset, mean, deviation):
        """Element by element; `offset` is the offset of the first element."""
        for e in range(begin, end):
            if wide:
                noise = fma64(normal64(key, hi, lo, offset), np.float64(deviation), np.float64(mean))
                out[e] = convert(np.float64(source[e]) + noise)
            else:
                noise32 = fma32(normal32(key, hi, lo, offset), deviation, mean)
                out[e] = convert(np.float32(np.float32(source[e]) + noise32))
            offset += _ELEMENT_STRIDE

    @step_variant(dtype, vectors)
    def gaussian(context, sample, thread):
        count = load_i64(load_i64(context + at.counts) + 8 * sample)
        source = elements(load_i64(load_i64(context + at.inputs) + 8 * sample), count)
        out = elements(load_i64(load_i64(context + at.outputs) + 8 * sample), count)
        parameters = load_i64(context + at.parameters) + 8 * sample
        mean, deviation = load_f32(parameters), load_f32(parameters + 4)
        key, lo = _U(load_i64(context + at.position_key)), _U(load_i64(context + at.position_lo))
        hi = _U(load_i64(context + at.position_hi)) + _SAMPLE_STRIDE * _U(sample)
        offset = _U(load_i64(context + at.position_phase))
        begin, numbers = 0, _new_numbers()
        if vectors:
            # First the elements before the first block boundary of the random stream, then whole rows of elements.
            begin = smaller(np.int64(-offset & _U(3)), count)
            add_some(source, out, 0, begin, key, hi, lo, offset, mean, deviation)
            offset += _ELEMENT_STRIDE * _U(begin)
            while begin + ELEMENTS <= count:
                normals_32(np.int64(key), np.int64(hi), np.int64(lo), np.int64(offset), address(numbers))
                for k in range(ELEMENTS):
                    out[begin + k] = convert(np.float32(np.float32(source[begin + k]) + fma32(numbers[k], deviation, mean)))
                begin += ELEMENTS
                offset += _ELEMENT_STRIDE * _U(ELEMENTS)
        add_some(source, out, begin, count, key, hi, lo, offset, mean, deviation)
        return 0

    return gaussian


_TOGETHER_COUNT = 16  # Elements whose counts are drawn side by side: two chains of multiplications at a time.
_TOGETHER_ROWS = 4 * _TOGETHER_COUNT
_blocks = blocks_of(_TOGETHER_COUNT)
_reals, _wholes = lanes("float64", _TOGETHER_COUNT), lanes("uint64", _TOGETHER_COUNT)
_real, _whole, _load_reals, _store_reals = _reals.splat, _wholes.splat, _reals.load, _reals.store
_as_reals, _choose, _smaller_reals, _largest_real = _wholes.converted(_reals), _reals.choose, _reals.smaller, _reals.largest
_BELOW_ONE = float(np.nextafter(1.0, 0.0))
_SMALL_MEAN = 12  # Below this mean a count is drawn by a product of uniform draws.
_MOST_MEANS = 256


@inlined
def _uniforms(low, high):
    """``canonical64`` of the distributions' module, for vectors: float64 in [0, 1) from two words."""
    value = (_as_reals(low) + _as_reals(high) * _real(4294967296.0)) * _real(2.0**-64)
    return _smaller_reals(value, _real(_BELOW_ONE))


@inlined
def _one_event(product, limits, counts, active, low, high):
    """Draw once more for the unfinished elements. Gives products, counts, and 1.0 for elements that continue (else 0.0)."""
    one, nothing = _real(1.0), _real(0.0)
    on = active > nothing
    product = _choose(on, product * _uniforms(low, high), product)
    counts = _choose(on, counts + one, counts)
    return product, counts, _choose(product > limits, active, nothing)


@inlined
def _small_counts(key, hi, lo, offset, limits, out):
    """Poisson counts of elements that are four apart, for means below 12. `limits` and `out` are addresses of a float64 per element."""
    block, lane = np.int64(offset >> _U(2)), offset & _U(3)
    product, counts, active, limit = _real(1.0), _real(0.0), _real(1.0), _load_reals(limits)
    a, b, c, d = _blocks(key, hi, lo, block)
    if lane == _U(1):
        product, counts, active = _one_event(product, limit, counts, active, b, c)
    if lane == _U(2):
        product, counts, active = _one_event(product, limit, counts, active, c, d)
    last = d
    even = lane == _U(0) or lane == _U(2)
    if lane != _U(0):
        block += 1
        a, b, c, d = _blocks(key, hi, lo, block)
    while _largest_real(active) > 0.0:
        if even:
            product, counts, active = _one_event(product, limit, counts, active, a, b)
            product, counts, active = _one_event(product, limit, counts, active, c, d)
        else:
            product, counts, active = _one_event(product, limit, counts, active, last, a)
            product, counts, active = _one_event(product, limit, counts, active, b, c)
            last = d
        block += 1
        a, b, c, d = _blocks(key, hi, lo, block)
    _store_reals(out, counts - _real(1.0))


@cache
def shot_step(dtype: str) -> Compiled:
    """noise.shot for the NumPy name of a dtype."""
    elements, convert, table = view(dtype), converter("float32", dtype), dtype == "uint8"

    @inlined
    def mean_of(x, inverse):
        mean = np.float32(np.float32(x) * inverse)
        return np.float64(mean if mean > 0 else np.float32(0))

    @inlined
    def one(source, out, e, stream, key, hi, lo, offset, factor, inverse, constants, factorials):
        """A single element."""
        events = np.float32(0)
        if factor != 0:
            mean = mean_of(source[e], inverse)
            open_stream(stream, key, hi, lo, offset)
            if mean < _SMALL_MEAN:
                events = np.float32(poisson_small(stream, mean))
            elif mean >= MOST_POISSON_MEAN:
                events = np.float32(poisson_large(stream, mean))
            else:
                known = constants
                if table:
                    known = view_f64(address(constants) + 8 * POISSON_FIELDS * np.int64(source[e]), POISSON_FIELDS)
                else:
                    poisson_constants(mean, known)
                events = np.float32(poisson_rejection(stream, known, factorials))
        out[e] = convert(np.float32(events * factor))

    @inlined
    def limit_of(limits, x, inverse):
        """exp(-mean), or a negative number if the mean is not small."""
        if table:
            return limits[x]
        mean = mean_of(x, inverse)
        return exp_64(-mean) if mean < _SMALL_MEAN else -1.0

    @step_variant(dtype)
    def shot(context, sample, thread):
        count = load_i64(load_i64(context + at.counts) + 8 * sample)
        source = elements(load_i64(load_i64(context + at.inputs) + 8 * sample), count)
        out = elements(load_i64(load_i64(context + at.outputs) + 8 * sample), count)
        factor = load_f32(load_i64(context + at.parameters) + 4 * sample)
        key, lo = _U(load_i64(context + at.position_key)), _U(load_i64(context + at.position_lo))
        hi = _U(load_i64(context + at.position_hi)) + _SAMPLE_STRIDE * _U(sample)
        offset = _U(load_i64(context + at.position_phase))
        inverse = np.float32(np.float32(1) / factor)
        stream, limits, own, made, factorials = new_stream(), _new_limits(), _new_reals(), _new_reals(), _new_factorials()
        constants = _new_constants()
        fill_factorials(factorials)
        begin = count
        if factor != 0:
            begin = smaller(np.int64(-offset & _U(3)), count)
            if table:
                for k in range(_MOST_MEANS):
                    mean = mean_of(k, inverse)
                    limits[k] = exp_64(-mean) if mean < _SMALL_MEAN else -1.0
                    if not mean < _SMALL_MEAN:
                        poisson_constants(mean, view_f64(address(constants) + 8 * POISSON_FIELDS * k, POISSON_FIELDS))
        for e in range(begin):
            one(source, out, e, stream, key, hi, lo, offset, factor, inverse, constants, factorials)
            offset += _ELEMENT_STRIDE
        while begin + _TOGETHER_ROWS <= count:
            for row in range(4):
                for k in range(_TOGETHER_COUNT):
                    own[k] = limit_of(limits, source[begin + 4 * k + row], inverse)
                    # Other means are drawn one by one; their elements are marked as finished after the first draw.
                    own[k] = own[k] if own[k] >= 0.0 else 2.0
                first = offset + _ELEMENT_STRIDE * _U(row)
                _small_counts(np.int64(key), np.int64(hi), np.int64(lo), first, address(own), address(made))
                for k in range(_TOGETHER_COUNT):
                    e = begin + 4 * k + row
                    if own[k] > 1.0:
                        own_offset = offset + _ELEMENT_STRIDE * _U(4 * k + row)
                        one(source, out, e, stream, key, hi, lo, own_offset, factor, inverse, constants, factorials)
                    else:
                        out[e] = convert(np.float32(np.float32(made[k]) * factor))
            begin += _TOGETHER_ROWS
            offset += _ELEMENT_STRIDE * _U(_TOGETHER_ROWS)
        for e in range(begin, count):
            one(source, out, e, stream, key, hi, lo, offset, factor, inverse, constants, factorials)
            offset += _ELEMENT_STRIDE
        return 0

    return shot


@cache
def salt_and_pepper_step(dtype: str) -> Compiled:
    """noise.salt_and_pepper for the NumPy name of a dtype."""
    elements, itemsize = view(dtype), np.dtype(dtype).itemsize

    @inlined
    def season(source, out, pixel, together, inner, drawn, chance, salt_chance, salt, pepper):
        """The elements of one pixel."""
        draw = np.float32(np.float32(drawn) * _2_POW_MINUS_32)
        if inner == 1 and together == 3:
            kept, flavour = not draw < chance, salt if draw < salt_chance else pepper
            first = np.uint64(3 * pixel)
            second, third = first + np.uint64(1), first + np.uint64(2)
            out[first] = source[first] if kept else flavour
            out[second] = source[second] if kept else flavour
            out[third] = source[third] if kept else flavour
            return
        first_one = pixel // inner * inner * together + pixel % inner if inner > 1 else pixel * together
        for c in range(together):
            e = first_one + c * inner
            out[e] = source[e] if not draw < chance else salt if draw < salt_chance else pepper

    @step_variant(dtype)
    def salt_and_pepper(context, sample, thread):
        count = load_i64(load_i64(context + at.counts) + 8 * sample)
        source = elements(load_i64(load_i64(context + at.inputs) + 8 * sample), count)
        out = elements(load_i64(load_i64(context + at.outputs) + 8 * sample), count)
        parameters = load_i64(context + at.parameters) + 8 * sample
        chance, salt_chance = load_f32(parameters), load_f32(parameters + 4)
        key, lo = _U(load_i64(context + at.position_key)), _U(load_i64(context + at.position_lo))
        hi = _U(load_i64(context + at.position_hi)) + _SAMPLE_STRIDE * _U(sample)
        flavours = elements(load_i64(context + at.flavours) + 2 * itemsize * sample, 2)
        together, inner = load_i64(load_i64(context + at.together) + 8 * sample), load_i64(load_i64(context + at.inner) + 8 * sample)
        offset = _U(load_i64(context + at.position_phase))
        if count == 0:
            return 0
        pixels, words = count // together, _new_words()
        begin = smaller(np.int64(-offset & _U(3)), pixels)
        salt, pepper = flavours[0], flavours[1]
        for pixel in range(begin):
            season(source, out, pixel, together, inner, word(key, hi, lo, offset), chance, salt_chance, salt, pepper)
            offset += _ELEMENT_STRIDE
        while begin + ELEMENTS <= pixels:
            words_32(np.int64(key), np.int64(hi), np.int64(lo), np.int64(offset), address(words))
            for k in range(ELEMENTS):
                season(source, out, begin + k, together, inner, words[k], chance, salt_chance, salt, pepper)
            begin += ELEMENTS
            offset += _ELEMENT_STRIDE * _U(ELEMENTS)
        for pixel in range(begin, pixels):
            season(source, out, pixel, together, inner, word(key, hi, lo, offset), chance, salt_chance, salt, pepper)
            offset += _ELEMENT_STRIDE
        return 0

    return salt_and_pepper


@compiled(4)
def _cast(values, count, out, kind):
    for i in range(count):
        store_value(out, i, kind, cast_bound(load_f32(values + 4 * i), kind))
    return 0


def cast_values(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """float32 values cast as C does it on x86-64 (see ``cast_bound``)."""
    values = np.ascontiguousarray(values, np.float32)
    if np.dtype(dtype).itemsize == 8 and (np.abs(values) < 2.0**63).all():
        return values.astype(np.int64).view(dtype)  # float64 could not hold wrapped values.
    out = np.empty(len(values), dtype)
    _cast(address_of(values), len(values), address_of(out), KINDS[np.dtype(dtype)])
    return out
