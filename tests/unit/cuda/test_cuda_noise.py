"""Kernels of noise, compiled for the host, equal the compiled steps. Both use the mathematical functions of the same C library."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import kernels
from helpers.twins import assert_near, both

pytestmark = pytest.mark.skipif(kernels.COMPILER is None, reason="no C++ compiler to build kernels for the host")
SLOW = pytest.mark.slow


def data(rng, dtype):
    shapes = [(5, 7, 3), (0, 2, 3), (40, 31, 1)]
    if np.dtype(dtype).kind == "f":
        return [rng.normal(size=shape).astype(dtype) for shape in shapes]
    return [rng.integers(0, 100, shape).astype(dtype) for shape in shapes]


@pytest.mark.parametrize("dtype", ["uint8", *[pytest.param(k, marks=SLOW) for k in ("int32", "float32", "uint64", "int16")]])
def test_gaussian(dtype):
    rng = np.random.default_rng(1)
    deviations = {"stddev": rng.uniform(0, 40, 3).astype(np.float32)}
    assert_near(*both("noise.gaussian", data(rng, dtype), "HWC", deviations, mean=3.0))


@pytest.mark.parametrize("dtype", ["uint8", *[pytest.param(k, marks=SLOW) for k in ("int64", "float32")]])
@pytest.mark.parametrize("layout", ["CHW", pytest.param("HWC", marks=SLOW), pytest.param("per_channel", marks=SLOW)])
def test_salt_and_pepper(dtype, layout):
    rng = np.random.default_rng(2)
    chances = {"prob": rng.uniform(0, 1, 3).astype(np.float32)}
    constants = {"per_channel": True} if layout == "per_channel" else {}
    assert_near(*both("noise.salt_and_pepper", data(rng, dtype), layout if not constants else "HWC", chances, salt_val=9.0, **constants))


def test_salt_and_pepper_of_pixels_that_begin_anywhere():
    """Four pixels are computed together where the output's words begin."""
    rng = np.random.default_rng(4)
    samples = [rng.integers(0, 256, (1, width, channels), np.uint8) for channels in (3, 1, 2) for width in (1, 2, 3, 4, 5, 6, 7, 43)]
    chances = {"prob": rng.uniform(0, 1, len(samples)).astype(np.float32)}
    assert_near(*both("noise.salt_and_pepper", samples, "HWC", chances))


@pytest.mark.parametrize("dtype", ["uint8", "float32", *[pytest.param(k, marks=SLOW) for k in ("int32", "uint64", "int16")]])
def test_shot(dtype):
    """Means of 0 to 8 events are drawn by products of numbers. Means up to 1,000 are drawn by rejection."""
    rng = np.random.default_rng(3)
    factors = {"factor": np.array([12.0, 0.0, 0.1], np.float32)}
    assert_near(*both("noise.shot", [abs(sample) for sample in data(rng, dtype)], "HWC", factors))
    assert_near(*both("noise.shot", data(rng, dtype), "HWC", {"factor": np.array([0.5, 3.0, 40.0], np.float32)}))
