"""transpose, coord_flip and bb_flip beside DALI's."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.tensor_parity import ALL_TYPES, compare, random_batch, random_cases

pytest.importorskip("nvidia.dali")

LETTERS = "FDHWC"


def check_transpose(rng):
    ndim, dtype = int(rng.integers(0, 6)), str(rng.choice(ALL_TYPES))
    samples = random_batch(rng, ndim, dtype, largest=int(rng.choice([3, 6, 15])) if ndim < 4 else 4)
    arguments = {}
    if rng.random() < 0.85 and ndim:
        arguments["perm"] = [int(axis) for axis in rng.permutation(ndim)]
        if rng.random() < 0.05:
            arguments["perm"][0] = int(rng.integers(-1, ndim + 1))
    if rng.random() < 0.3:
        arguments["transpose_layout"] = bool(rng.integers(2))
    if rng.random() < 0.2 and ndim:
        arguments["output_layout"] = "ABCDE"[: ndim if rng.random() < 0.9 else ndim - 1]
    compare("transpose", [samples], [LETTERS[:ndim] if rng.random() < 0.6 else ""], **arguments)


def arguments_of(rng, count, ranges):
    """Random arguments, each a constant or one value per sample."""
    constants, named = {}, {}
    for name, draw in ranges.items():
        way = rng.random()
        if way < 0.4:
            constants[name] = draw()
        elif way < 0.7:
            named[name] = [np.array(draw()).astype(np.int32 if isinstance(draw(), int) else np.float32) for _ in range(count)]
    return constants, named


def check_coord_flip(rng):
    length, count = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    samples = [rng.uniform(-2, 2, (int(rng.integers(0, 6)), length)).astype(np.float32) for _ in range(count)]
    ranges = {f"center_{name}": lambda: float(rng.uniform(-1, 1)) for name in "xyz"}
    ranges |= {f"flip_{name}": lambda: int(rng.integers(0, 3)) for name in "xyz"}
    constants, named = arguments_of(rng, count, ranges)
    if rng.random() < 0.5:
        constants["layout"] = "".join(rng.permutation(list("xyz"[:length]))) if rng.random() < 0.9 else "xx"
    compare("coord_flip", [samples], [""], named, **constants)


def check_bb_flip(rng):
    count = int(rng.integers(1, 4))
    samples = [rng.uniform(0, 1, (int(rng.integers(0, 6)), 4)).astype(np.float32) for _ in range(count)]
    flips = {name: lambda: int(rng.integers(0, 3)) for name in ("horizontal", "vertical")}
    constants, named = arguments_of(rng, count, flips)
    compare("bb_flip", [samples], [""], named, ltrb=bool(rng.integers(2)), **constants)


CHECKS = [check_transpose, check_coord_flip, check_bb_flip]


@pytest.mark.parametrize("check", CHECKS)
def test_random_cases(check):
    random_cases(check, 70)


@pytest.mark.slow
@pytest.mark.parametrize("check", CHECKS)
def test_many_random_cases(check):
    random_cases(check, 2000)
