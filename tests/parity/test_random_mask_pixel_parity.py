"""segmentation.random_mask_pixel beside DALI's: the same seed gives the same pixels."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import operators as harness
from helpers.parity import assert_both_refuse, dali_output, same

pytest.importorskip("nvidia.dali")
NAME = "segmentation.random_mask_pixel"


@pytest.mark.parametrize("dtype", ["uint8", "float32", *(pytest.param(dtype, marks=pytest.mark.slow) for dtype in ("int16", "int64"))])
@pytest.mark.parametrize("shape", [(9, 7), (4, 5, 6), (30,)])
def test_pixels(dtype, shape):
    rng = np.random.default_rng(len(shape))
    data = [(rng.integers(0, 4, shape) * (rng.random(shape) < 0.3)).astype(dtype) for _ in range(12)]
    data[3][...] = 0
    foreground = {"foreground": rng.integers(0, 2, 12).astype(np.int32)}
    values, thresholds = {"value": rng.integers(0, 5, 12).astype(np.int32)}, {"threshold": rng.uniform(0, 3, 12).astype(np.float32)}
    for given in (None, foreground, foreground | values, foreground | thresholds):
        same(dali_output(NAME, data, "", given, seed=9), harness.run(NAME, data, "", given, seed=9))
    same(dali_output(NAME, data, foreground=1, value=2, seed=1), harness.run(NAME, data, foreground=1, value=2, seed=1))


def test_both_refuse_a_value_and_a_threshold():
    assert_both_refuse(NAME, [np.ones((3, 3), np.uint8)], value=1, threshold=0.5)
