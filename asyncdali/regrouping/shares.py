"""The order in which a mix takes its parts: a periodic sequence with exact shares.

Weights become whole thousandths, which sum up to 1000. The sequence of 1000 units repeats, so every window of 1000 units, wherever it
begins, has exactly these shares. Within the period each part is spread as evenly as possible: the next unit goes to the part that is most
behind its share (a quota method of apportionment, Balinski and Young, 1975; also the smooth weighted round robin of web servers).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np

PERIOD = 1000


def thousandths(weights: Sequence[float]) -> tuple[int, ...]:
    """The shares of `weights` in thousandths, by the method of largest remainders. They sum up to 1000.

    ValueError for weights that are no finite numbers of at least 0, and for a weight above 0 whose share would be 0.
    """
    numbers = [float(weight) for weight in weights]
    total = math.fsum(numbers)
    if not all(math.isfinite(number) and number >= 0 for number in numbers) or not 0 < total < math.inf:
        raise ValueError(f"weights are finite numbers of at least 0 with a sum above 0, got {list(weights)}")
    exact = [number * PERIOD / total for number in numbers]
    shares = [int(value) for value in exact]
    remainders = sorted(range(len(exact)), key=lambda k: (shares[k] - exact[k], k))
    for k in remainders[: PERIOD - sum(shares)]:
        shares[k] += 1
    lost = [k for k, number in enumerate(numbers) if number and not shares[k]]
    if lost:
        raise ValueError(
            f"weight {lost[0]} is {numbers[lost[0]]:g} of {total:g}: less than a thousandth, and shares are whole thousandths. Give 0, or "
            "at least a thousandth."
        )
    return tuple(shares)


@functools.lru_cache(64)
def sequence(shares: tuple[int, ...]) -> np.ndarray:
    """The part of each unit of a period, int64[1000]. `shares` sum up to 1000."""
    behind = np.zeros(len(shares), np.int64)
    parts = np.empty(PERIOD, np.int64)
    for unit in range(PERIOD):
        behind += shares
        part = parts[unit] = int(behind.argmax())
        behind[part] -= PERIOD
    parts.flags.writeable = False
    return parts
