"""Compiled part of ``order``: standard permutations by Mersenne Twister, and the shuffle buffer over indices."""

from __future__ import annotations

import numpy as np

from ..compiled.intrinsics import load_i64, local_array, multiply_high, smaller, store_i64, view_i64
from ..compiled.step import compiled, inlined
from .order_tables import SHUFFLE

_U = np.uint64
_MASK32 = _U(0xFFFFFFFF)
_state32, _state64 = local_array(np.uint64, 625), local_array(np.uint64, 313)

# ---------------------------------------------------------------------------------------------------------------------------------
# Mersenne Twister, 32 and 64 bits (the C++ standard's mt19937 and mt19937_64, [rand.predef]). The state is a uint64 array whose
# last element is the position of the next word.
# ---------------------------------------------------------------------------------------------------------------------------------


@inlined
def _seed32(state, seed):
    x = seed & _MASK32
    state[0] = x
    for i in range(1, 624):
        x = (_U(1812433253) * (x ^ (x >> _U(30))) + _U(i)) & _MASK32
        state[i] = x
    state[624] = _U(624)


@inlined
def _word32(state):
    position = np.int64(state[624])
    if position == 624:
        for k in range(624):
            y = (state[k] & _U(0x80000000)) | (state[k + 1 if k < 623 else 0] & _U(0x7FFFFFFF))
            twisted = state[k + 397 if k < 227 else k - 227] ^ (y >> _U(1))
            state[k] = twisted ^ _U(0x9908B0DF) if y & _U(1) else twisted
        position = np.int64(0)
    state[624] = _U(position + 1)
    y = state[position]
    y ^= y >> _U(11)
    y ^= (y << _U(7)) & _U(0x9D2C5680)
    y ^= (y << _U(15)) & _U(0xEFC60000)
    return y ^ (y >> _U(18))


@inlined
def _seed64(state, seed):
    x = seed
    state[0] = x
    for i in range(1, 312):
        x = _U(6364136223846793005) * (x ^ (x >> _U(62))) + _U(i)
        state[i] = x
    state[312] = _U(312)


@inlined
def _word64(state):
    position = np.int64(state[312])
    if position == 312:
        for k in range(312):
            y = (state[k] & _U(0xFFFFFFFF80000000)) | (state[k + 1 if k < 311 else 0] & _U(0x7FFFFFFF))
            twisted = state[k + 156 if k < 156 else k - 156] ^ (y >> _U(1))
            state[k] = twisted ^ _U(0xB5026F5AA96619E9) if y & _U(1) else twisted
        position = np.int64(0)
    state[312] = _U(position + 1)
    y = state[position]
    y ^= (y >> _U(29)) & _U(0x5555555555555555)
    y ^= (y << _U(17)) & _U(0x71D67FFFEDA60000)
    y ^= (y << _U(37)) & _U(0xFFF7EEE000000000)
    return y ^ (y >> _U(43))


@inlined
def _below32(state, n):
    """Uniform integer in [0, n): multiply-high, redrawing the biased part."""
    n = _U(n)
    product = _word32(state) * n
    if product & _MASK32 < n:
        limit = (_U(1 << 32) - n) % n
        while product & _MASK32 < limit:
            product = _word32(state) * n
    return np.int64(product >> _U(32))


@inlined
def _below64(state, n):
    n = _U(n)
    drawn = _word64(state)
    if drawn * n < n:
        limit = (_U(0) - n) % n
        while drawn * n < limit:
            drawn = _word64(state)
    return np.int64(multiply_high(drawn, n))


# ---------------------------------------------------------------------------------------------------------------------------------
# std::shuffle as in the GNU C++ library: while two targets fit into one draw, elements are exchanged in pairs.
# ---------------------------------------------------------------------------------------------------------------------------------


@inlined
def _swap(a, i, j):
    a[i], a[j] = a[j], a[i]


@compiled(3)
def permute32(items, count, seed):
    """Shuffle the int64 array at `items` in place with a 32-bit generator. Lists longer than 65535 take one draw per element."""
    a = view_i64(items, count)
    state = _state32()
    _seed32(state, _U(seed))
    if count > 65535:
        for i in range(1, count):
            _swap(a, i, _below32(state, i + 1))
        return 0
    i = 1
    if count > 0 and count % 2 == 0:
        _swap(a, 1, _below32(state, 2))
        i = 2
    while i < count:
        both = _below32(state, (i + 1) * (i + 2))
        _swap(a, i, both // (i + 2))
        _swap(a, i + 1, both % (i + 2))
        i += 2
    return 0


@compiled(3)
def permute64(items, count, seed):
    """The same with a 64-bit generator, for which pairs always fit."""
    a = view_i64(items, count)
    state = _state64()
    _seed64(state, _U(seed))
    i = 1
    if count > 0 and count % 2 == 0:
        _swap(a, 1, _below64(state, 2))
        i = 2
    while i < count:
        both = _below64(state, (i + 1) * (i + 2))
        _swap(a, i, both // (i + 2))
        _swap(a, i + 1, both % (i + 2))
        i += 2
    return 0


# ---------------------------------------------------------------------------------------------------------------------------------
# Shuffle buffer
# ---------------------------------------------------------------------------------------------------------------------------------

at = SHUFFLE.at
_MODULUS = _U(2147483647)
_SPAN = _U(2147483645)


@compiled(3, brief=True)
def draw_shuffled(table, count, out):
    """Deliver `count` more samples of the shard of a SHUFFLE `table` to the int64 array at `out` (0: skip the samples).

    One step draws one of the live slots, exchanges its index with the oldest, delivers the drawn index, and refills its slot with the next
    sample of the shard. The engine is x -> 16807 x mod 2^31 - 1. A bounded draw divides, and redraws beyond the last whole multiple. A draw
    takes place even if only one slot is live.
    """
    x, delivered, size = _U(load_i64(table + at.engine)), load_i64(table + at.delivered), load_i64(table + at.samples)
    slots, head = load_i64(table + at.slots), load_i64(table + at.oldest)
    held = view_i64(load_i64(table + at.held), slots)
    source, first = load_i64(table + at.source), load_i64(table + at.first)
    last = load_i64(table + at.last)
    live = np.int64(0)
    quotient = _U(0)
    for i in range(count):
        left = smaller(slots, size - delivered)
        if left != live:  # saves a division for most samples, because the buffer is full until the shard's end
            live = left
            quotient = _SPAN // _U(live)
        x = (x * _U(16807)) % _MODULUS
        while x - _U(1) >= quotient * _U(live):
            x = (x * _U(16807)) % _MODULUS
        chosen = head + np.int64((x - _U(1)) // quotient)
        if chosen >= slots:
            chosen -= slots
        last = held[chosen]
        held[chosen] = held[head]
        following = delivered + slots
        if following < size:
            held[head] = load_i64(source + 8 * following) if source != 0 else first + following
        head = head + 1 if head + 1 < slots else 0
        delivered += 1
        if out != 0:
            store_i64(out + 8 * i, last)
    store_i64(table + at.engine, np.int64(x))
    store_i64(table + at.delivered, delivered)
    store_i64(table + at.oldest, head)
    store_i64(table + at.last, last)
    return 0
