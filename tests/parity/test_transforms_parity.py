"""transforms.* beside DALI's: products of matrices are equal, other results differ by a few units of the last place."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.tensor_parity import compare, random_cases

pytest.importorskip("nvidia.dali")


def check_transforms(rng):
    name = str(rng.choice(["translation", "scale", "rotation", "shear", "crop", "combine"]))
    count, ndim = int(rng.integers(1, 4)), int(rng.integers(2, 4))
    constants, named = {"reverse_order": bool(rng.integers(2))}, {}

    def matrices():
        return [rng.uniform(-3, 3, (ndim, ndim + 1)).astype(np.float32) for _ in range(count)]

    def give(argument, length, low=-3.0, high=3.0):
        if rng.random() < 0.5:
            constants[argument] = rng.uniform(low, high, length).tolist()
        else:
            named[argument] = list(rng.uniform(low, high, (count, length)).astype(np.float32))

    if name == "combine":
        inputs = [matrices() for _ in range(rng.integers(2, 5))]
        compare("transforms.combine", inputs, None, **constants)
        return
    if name == "translation":
        give("offset", ndim)
    elif name == "scale":
        give("scale", ndim)
    elif name == "rotation":
        if rng.random() < 0.5:
            constants["angle"] = float(rng.uniform(-400, 400))
        else:
            named["angle"] = [np.float32(angle) for angle in rng.uniform(-400, 400, count)]
        if ndim == 3:
            give("axis", 3)
    elif name == "shear":
        argument = str(rng.choice(["shear", "angles"]))
        give(argument, ndim * (ndim - 1), -60 if argument == "angles" else -3, 60 if argument == "angles" else 3)
        if ndim == 3 and argument in named:  # DALI refuses a flat list.
            named[argument] = [row.reshape(3, 2) for row in named[argument]]
    else:
        constants["absolute"] = bool(rng.integers(2))
        give("from_start", ndim, 0, 1)
        give("from_end", ndim, 2, 3)
        for argument in ("to_start", "to_end"):
            if rng.random() < 0.7:
                give(argument, ndim)
    if name in ("scale", "rotation", "shear") and rng.random() < 0.5:
        give("center", ndim)
    inputs = [matrices()] if rng.random() < 0.5 else []
    count_of = None if inputs or named else count
    compare(f"transforms.{name}", inputs, None, named, count_of, **constants, close=1e-4)


def test_random_cases():
    random_cases(check_transforms, 200)


@pytest.mark.slow
def test_many_random_cases():
    random_cases(check_transforms, 4000)
