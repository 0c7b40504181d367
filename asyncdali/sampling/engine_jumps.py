"""Jumps of the shuffle engine: its state behind a shard-epoch, without drawing each sample.

The engine is x -> a x mod m with the prime m = 2^31 - 1 and a primitive root a = 16807, so n steps multiply by a^n. A bounded draw of
one of n slots repeats a step while x - 1 >= n * floor((m - 2) / n). These are at most n + 1 of the m - 1 states. Their places in the
engine's cycle are their discrete logarithms. The logarithms are cheap, because m - 1 = 2 * 3^2 * 7 * 11 * 31 * 151 * 331 has small
factors (S. Pohlig and M. Hellman, "An Improved Algorithm for Computing Logarithms over GF(p)", 1978). So the number of repeated steps is
counted, not found by taking the steps.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

MULTIPLIER, MODULUS = 16807, 2147483647
_PERIOD = MODULUS - 1
_FACTORS = (2, 9, 7, 11, 31, 151, 331)


def _powers(bases: np.ndarray, exponent: int) -> np.ndarray:
    """``bases ** exponent`` modulo m, int64[n]. Products of two residues fit into 62 bits."""
    found, squares = np.ones_like(bases), bases.copy()
    while exponent:
        if exponent & 1:
            found = found * squares % MODULUS
        squares = squares * squares % MODULUS
        exponent >>= 1
    return found


def places(states: np.ndarray) -> np.ndarray:
    """The exponents e, 0 <= e < m - 1, with a^e = x modulo m for each of the `states` x; int64[n]."""
    found = np.zeros(len(states), np.int64)
    for factor in _FACTORS:
        rest = _PERIOD // factor
        root = pow(MULTIPLIER, rest, MODULUS)
        table = np.array([pow(root, k, MODULUS) for k in range(factor)], np.int64)
        order = np.argsort(table)
        digits = order[np.searchsorted(table, _powers(states, rest), sorter=order)]
        found += digits * (rest * pow(rest, -1, factor) % _PERIOD)  # the Chinese remainder theorem
    return found % _PERIOD


@lru_cache(maxsize=64)
def _repeating(slots: int) -> np.ndarray:
    """The places of all states at which a draw of one of `slots` slots repeats its step."""
    first = (MODULUS - 2) // slots * slots + 1
    return places(np.arange(first, MODULUS, dtype=np.int64))


def after_draws(engine: int, draws: int, slots: int) -> int:
    """The engine's state after `draws` draws of one of `slots` slots. `draws` is less than the period."""
    begin = int(places(np.array([engine], np.int64))[0])
    steps = np.sort((_repeating(slots) - begin - 1) % _PERIOD) + 1  # the steps, from 1, that lead to these states
    repeated = 0
    while True:
        more = int(np.searchsorted(steps, draws + repeated, side="right"))
        if more == repeated:
            return engine * pow(MULTIPLIER, draws + repeated, MODULUS) % MODULUS
        repeated = more
