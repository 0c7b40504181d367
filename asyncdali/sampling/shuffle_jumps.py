"""Jumps of the generator that shuffles: its state behind a shard-epoch, without drawing each sample.

The generator is x -> a x mod m with the prime m = 2^31 - 1 and a primitive root a = 16807, so n steps multiply by a^n. A bounded draw of
one of n slots repeats a step while x - 1 >= n * floor((m - 2) / n). These are at most n + 1 of the m - 1 states. Their places in the
generator's cycle are their discrete logarithms. The logarithms are cheap, because m - 1 = 2 * 3^2 * 7 * 11 * 31 * 151 * 331 has small
factors (S. Pohlig and M. Hellman, "An Improved Algorithm for Computing Logarithms over GF(p)", 1978). So the number of repeated steps is
counted, not found by taking the steps.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

MULTIPLIER, MODULUS = 16807, 2147483647
_PERIOD = MODULUS - 1
_FACTORS = (2, 9, 7, 11, 31, 151, 331)


@lru_cache(maxsize=1)
def _digits() -> tuple[tuple[int, int, dict[int, int]], ...]:
    """For each factor: the exponent that leaves only this factor's digit, the digit's weight in the place (by the Chinese remainder
    theorem), and the digits by the power."""
    found = []
    for factor in _FACTORS:
        rest = _PERIOD // factor
        root, power, table = pow(MULTIPLIER, rest, MODULUS), 1, {}
        for digit in range(factor):
            table[power] = digit
            power = power * root % MODULUS
        found.append((rest, rest * pow(rest, -1, factor) % _PERIOD, table))
    return tuple(found)


def place(state: int) -> int:
    """The exponent e, 0 <= e < m - 1, with a^e = `state` modulo m."""
    return sum(weight * table[pow(state, rest, MODULUS)] for rest, weight, table in _digits()) % _PERIOD


def places(states: np.ndarray) -> np.ndarray:
    """:func:`place` of each of the `states`, int64[n]. Products of two residues fit into 62 bits."""
    powers = [np.ones_like(states) for _ in _FACTORS]
    squares = states
    for bit in range(_PERIOD.bit_length()):
        for k, (rest, _, _) in enumerate(_digits()):
            if rest >> bit & 1:
                powers[k] = powers[k] * squares % MODULUS
        squares = squares * squares % MODULUS
    found = np.zeros(len(states), np.int64)
    for power, (_, weight, table) in zip(powers, _digits(), strict=True):
        found += np.array([table[value] for value in power.tolist()], np.int64) * weight
    return found % _PERIOD


@lru_cache(maxsize=64)
def _repeating(slots: int) -> np.ndarray:
    """The places of all states at which a draw of one of `slots` slots repeats its step, in increasing order."""
    first = (MODULUS - 2) // slots * slots + 1
    return np.sort(places(np.arange(first, MODULUS, dtype=np.int64)))


def after_draws(state: int, draws: int, slots: int) -> int:
    """The generator's state after `draws` draws of one of `slots` slots. `draws` is less than the period."""
    begin, repeating = place(state), _repeating(slots)
    passed = int(repeating.searchsorted(begin, side="right"))
    repeated = 0
    while True:
        rounds, end = divmod(begin + draws + repeated, _PERIOD)
        more = rounds * len(repeating) + int(repeating.searchsorted(end, side="right")) - passed
        if more == repeated:
            return state * pow(MULTIPLIER, draws + repeated, MODULUS) % MODULUS
        repeated = more
