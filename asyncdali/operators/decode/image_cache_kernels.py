"""Compiled steps of the cache of decoded pictures: a digest of encoded bytes, and the copy of decoded pixels."""

from __future__ import annotations

import numpy as np

from ...compiled.intrinsics import copy_bytes, fetch_add, load_i64, load_u8, store_i64
from ...compiled.step import inlined, step
from ...compiled.tables import WORD
from .image_cache_tables import DIGEST_FILES, KEEP_PICTURES

digesting, keeping = DIGEST_FILES.at, KEEP_PICTURES.at

# Primes of xxHash (Y. Collet), 64-bit variant.
_P1, _P2, _P3 = np.uint64(0x9E3779B185EBCA87), np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(0x165667B19E3779F9)
_31, _33, _29, _32 = np.uint64(31), np.uint64(33), np.uint64(29), np.uint64(32)


@inlined
def _mixed(state, word, odd):
    """The state after one more word. `odd` makes the two halves of a digest differ."""
    state = state + word * odd
    return ((state << _31) | (state >> _33)) * _P1


@inlined
def _spread(state):
    """Final mix: every bit of the state affects every bit of the result."""
    state = (state ^ (state >> _33)) * _P2
    state = (state ^ (state >> _29)) * _P3
    return state ^ (state >> _32)


@step
def digest_step(context, sample, thread):
    """A digest of 128 bits: two hashes similar to xxHash64, with four lanes each."""
    data = load_i64(load_i64(context + digesting.inputs) + 8 * sample)
    size = load_i64(load_i64(context + digesting.sizes) + 8 * sample)
    seed = np.uint64(load_i64(context + digesting.seed))
    a0, a1, a2, a3 = seed + _P1, seed + _P2, seed, seed - _P1
    b0, b1, b2, b3 = seed ^ _P3, seed ^ _P1, seed + _P3, seed ^ _P2
    stop = data + size
    at = data
    while at + 32 <= stop:
        w0, w1 = np.uint64(load_i64(at)), np.uint64(load_i64(at + WORD))
        w2, w3 = np.uint64(load_i64(at + 2 * WORD)), np.uint64(load_i64(at + 3 * WORD))
        a0, a1, a2, a3 = _mixed(a0, w0, _P2), _mixed(a1, w1, _P2), _mixed(a2, w2, _P2), _mixed(a3, w3, _P2)
        b0, b1, b2, b3 = _mixed(b0, w0, _P3), _mixed(b1, w1, _P3), _mixed(b2, w2, _P3), _mixed(b3, w3, _P3)
        at += 32
    while at < stop:
        byte = np.uint64(load_u8(at))
        a0, b1 = _mixed(a0, byte, _P2), _mixed(b1, byte, _P3)
        at += 1
    first, second = np.uint64(size), np.uint64(size) * _P1
    first = _mixed(_mixed(_mixed(_mixed(first, a0, _P2), a1, _P3), a2, _P2), a3, _P3)
    second = _mixed(_mixed(_mixed(_mixed(second, b0, _P2), b1, _P3), b2, _P2), b3, _P3)
    target = load_i64(context + digesting.digests) + 16 * sample
    store_i64(target, np.int64(_spread(first)))
    store_i64(target + WORD, np.int64(_spread(second)))
    return 0


@step
def keep_step(context, sample, thread):
    """Copy a decoded sample into its slot. The slot's first word is written after the pixels, because other threads read it."""
    slot = load_i64(load_i64(context + keeping.slots) + 8 * sample)
    if slot != 0:
        source = load_i64(load_i64(context + keeping.pictures) + 8 * sample)
        copy_bytes(slot + load_i64(context + keeping.header), source, load_i64(load_i64(context + keeping.sizes) + 8 * sample))
        fetch_add(slot, 1)
    return 0
