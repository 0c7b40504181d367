"""Noise operators beside DALI's: equal to the last bit for the same seed."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import operators as harness
from helpers.parity import assert_both_refuse, dali_output, same

pytest.importorskip("nvidia.dali")
TYPES = [
    "uint8", "uint64", "float32",
    *(pytest.param(dtype, marks=pytest.mark.slow) for dtype in ("int8", "uint16", "int16", "uint32", "int32", "int64")),
]  # fmt: skip


def samples(rng, dtype, shape=(7, 9, 3), count=4):
    if dtype == "float32":
        return [rng.uniform(-5, 300, shape).astype(dtype) for _ in range(count)]
    info = np.iinfo(dtype)
    return [rng.integers(max(info.min, -1000), min(info.max, 40000), shape, dtype, endpoint=True) for _ in range(count)]


@pytest.mark.parametrize("dtype", TYPES)
def test_gaussian(dtype):
    rng = np.random.default_rng(1)
    data = samples(rng, dtype)
    per_sample = {"mean": rng.uniform(-20, 20, 4).astype(np.float32), "stddev": rng.uniform(-3, 90, 4).astype(np.float32)}
    for given in (None, per_sample):
        same(dali_output("noise.gaussian", data, "HWC", given, seed=5), harness.run("noise.gaussian", data, "HWC", given, seed=5))


@pytest.mark.parametrize("dtype", TYPES)
def test_shot(dtype):
    rng = np.random.default_rng(2)
    data = samples(rng, dtype, (5, 6))
    per_sample = {"factor": np.array([0.0, 0.3, 7.5, 100.0], np.float32)}
    for given in (None, per_sample):
        same(dali_output("noise.shot", data, "HW", given, seed=-7), harness.run("noise.shot", data, "HW", given, seed=-7))


@pytest.mark.parametrize("dtype", TYPES)
def test_salt_and_pepper(dtype):
    rng = np.random.default_rng(3)
    data = samples(rng, dtype)
    per_sample = {"prob": rng.uniform(0, 1, 4).astype(np.float32), "salt_vs_pepper": rng.uniform(0, 1, 4).astype(np.float32)}
    values = {"salt_val": np.array([300.7, -3.2, 5, 0], np.float32), "pepper_val": np.array([1.5, 2.5, -70000, 3], np.float32)}
    for given in (None, per_sample, per_sample | values):
        for per_channel in (False, True):
            constants = {"per_channel": per_channel, "seed": 11}
            same(
                dali_output("noise.salt_and_pepper", data, "HWC", given, **constants),
                harness.run("noise.salt_and_pepper", data, "HWC", given, **constants),
            )


@pytest.mark.parametrize(
    "layout, shape, per_channel", [
        ("CHW", (3, 5, 6), False), ("FHWC", (2, 3, 4, 3), False), ("", (5, 6, 3), False), ("", (50,), False), ("CFHW", (3, 2, 4, 5), False),
        ("HW", (9, 9), True), ("FCHW", (2, 3, 4, 5), True), ("", (7, 2), True),
    ],
)  # fmt: skip
def test_channels(layout, shape, per_channel):
    data = samples(np.random.default_rng(4), "uint8", shape)
    constants = {"per_channel": per_channel, "prob": 0.5, "seed": 3}
    same(
        dali_output("noise.salt_and_pepper", data, layout, **constants), harness.run("noise.salt_and_pepper", data, layout, **constants)
    )


@pytest.mark.parametrize("name", ["noise.gaussian", "noise.shot", "noise.salt_and_pepper"])
def test_both_refuse(name):
    for dtype in ("float16", "float64", "bool"):
        assert_both_refuse(name, [np.zeros((4, 5, 3), dtype)], "HWC")


def test_both_refuse_channels_in_the_middle():
    assert_both_refuse("noise.salt_and_pepper", [np.zeros((2, 3, 4, 5), np.uint8)], "FCHW")
    assert_both_refuse("noise.salt_and_pepper", [np.zeros((4, 5), np.uint8)], "HW")
