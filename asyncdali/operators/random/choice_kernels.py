"""Draws of ``random.choice``: picked elements, copied, or their indices."""

from __future__ import annotations

import numpy as np

from ...compiled.intrinsics import copy_bytes, load_f64, load_i32, load_i64, local_array, store_i32, store_i64
from ...compiled.step import compiled, inlined
from ...sampling.philox_vectors import ELEMENTS
from ...sampling.random_distributions_kernels import canonical64, new_stream, up_to
from ...sampling.random_streams_kernels import below, next_words, open_stream, store_value
from .choice import CHOICE

_U = np.uint64
_32 = _U(32)
_SAMPLE_STRIDE, _ELEMENT_STRIDE = _U(65537), _U(257)
choice = CHOICE.at
_new_words = local_array(np.uint32, ELEMENTS)

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
