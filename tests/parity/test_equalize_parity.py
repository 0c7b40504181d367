"""equalize beside DALI's: all outputs are equal."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.tensor_parity import compare, random_cases

pytest.importorskip("nvidia.dali")


def check(rng):
    layout = str(rng.choice(["HW", "HWC", "CHW", "FHW", "FHWC", "FCHW", ""]))
    ndim = len(layout) or int(rng.integers(2, 5))
    centre, spread = rng.uniform(0, 255), rng.uniform(0.3, 90)
    samples = []
    for _ in range(int(rng.integers(1, 4))):
        shape = rng.integers(1, 40 if ndim < 4 else 12, ndim)
        samples.append(np.clip(rng.normal(centre, spread, shape), 0, 255).astype(np.uint8))
    assert compare("equalize", [samples], [layout])


def test_planes_of_all_layouts():
    random_cases(check, 60)


def test_refused_by_both():
    assert not compare("equalize", [[np.zeros((4, 5, 3), np.uint16)]], ["HWC"])
    assert not compare("equalize", [[np.zeros((2, 4, 5, 3), np.uint8)]], ["DHWC"])
