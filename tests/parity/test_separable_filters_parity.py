"""gaussian_blur and laplacian beside DALI's: equal to the last bit for integers and FLOAT."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import operators as harness
from helpers.parity import assert_both_refuse, dali_output, errors, same

pytest.importorskip("nvidia.dali")
OTHER_TYPES = ["int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"]
LAYOUTS = [
    ("HWC", (17, 23, 3)), ("HW", (9, 30)), ("CHW", (3, 12, 9)), ("FHWC", (2, 12, 9, 3)), ("DHWC", (6, 9, 12, 2)), ("CFHW", (2, 3, 9, 9)),
    ("X", (30,)), ("DHW", (6, 7, 8)), ("", (9, 9, 3)), ("", (12,)), ("HWC", (1, 2, 3)), ("HWC", (4, 1, 1)),
    ("DHW", (1, 6, 7)), ("DHWC", (1, 1, 9, 2)),
]  # fmt: skip
VARIANTS = [{}, {"window_size": 5, "scale": 0.125}, {"window_size": 3, "smoothing_size": 1}, {"window_size": 7, "normalized_kernel": True}]


def samples(rng, shape, dtype, count=3):
    if np.dtype(dtype).kind == "f":
        return [(rng.random(shape) * 300 - 20).astype(dtype) for _ in range(count)]
    info = np.iinfo(dtype)
    return [rng.integers(max(info.min, -1000), min(info.max, 30000), shape).astype(dtype) for _ in range(count)]


@pytest.mark.parametrize("layout, shape", LAYOUTS)
def test_gaussian_blur(layout, shape):
    compare_blurs(layout, shape, ["uint8", "float32"])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", OTHER_TYPES)
def test_gaussian_blur_of_other_types(dtype):
    compare_blurs("HWC", (17, 23, 3), [dtype])


def compare_blurs(layout, shape, dtypes):
    rng = np.random.default_rng(1)
    axes = len(layout.strip("FC")) if layout else len(shape)
    for dtype in dtypes:
        data = samples(rng, shape, dtype)
        for constants in ({"sigma": 1.0}, {"sigma": 2.3}, {"window_size": 5}, {"window_size": 9, "sigma": 0.7}, {"window_size": 1}):
            same(dali_output("gaussian_blur", data, layout, **constants), harness.run("gaussian_blur", data, layout, **constants))
        per_sample = {
            "sigma": rng.uniform(0.3, 4, (3, axes)).astype(np.float32),
            "window_size": (2 * rng.integers(1, 8, (3, axes)) + 1).astype(np.int32),
        }
        for name in per_sample:
            one = {name: per_sample[name]}
            same(dali_output("gaussian_blur", data, layout, one), harness.run("gaussian_blur", data, layout, one))


@pytest.mark.parametrize("layout, shape", LAYOUTS)
def test_laplacian(layout, shape):
    rng = np.random.default_rng(2)
    axes = len(layout.strip("FC")) if layout else len(shape)
    for dtype in ["uint8", "float32"]:
        data = samples(rng, shape, dtype)
        for constants in VARIANTS:
            same(dali_output("laplacian", data, layout, **constants), harness.run("laplacian", data, layout, **constants))
        per_sample = {
            "window_size": (2 * rng.integers(1, 5, (3, axes)) + 1).astype(np.int32),
            "smoothing_size": (2 * rng.integers(0, 5, (3, axes)) + 1).astype(np.int32),
            "scale": rng.uniform(-0.1, 0.1, (3, axes)).astype(np.float32),
        }
        unequal = {"window_size": [3, 7, 5][:axes]}
        for constants in (unequal, unequal | {"normalized_kernel": True}, unequal | {"smoothing_size": 3}):
            same(dali_output("laplacian", data, layout, **constants), harness.run("laplacian", data, layout, **constants))
        for given in (per_sample, {"window_size": per_sample["window_size"]}):
            same(dali_output("laplacian", data, layout, given), harness.run("laplacian", data, layout, given))


@pytest.mark.parametrize("name", ["gaussian_blur", "laplacian"])
@pytest.mark.parametrize("dtype", ["uint8", pytest.param("int32", marks=pytest.mark.slow)])
def test_float_outputs(name, dtype):
    from asyncdali.types import FLOAT

    data = samples(np.random.default_rng(3), (12, 13, 3), dtype)
    constants = {"window_size": 5, "dtype": FLOAT}
    same(dali_output(name, data, "HWC", **constants), harness.run(name, data, "HWC", **constants))


@pytest.mark.slow
def test_half_and_double_blurs_are_close():
    rng = np.random.default_rng(4)
    for dtype, bound in (("float16", 2.0**-10), ("float64", 2.0**-22)):
        data = [rng.random((12, 13, 3)).astype(dtype) for _ in range(3)]
        error = errors(dali_output("gaussian_blur", data, "HWC", sigma=1.7), harness.run("gaussian_blur", data, "HWC", sigma=1.7))
        assert error.max() <= bound


@pytest.mark.parametrize(
    "name, shape, dtype, layout, constants", [
        ("gaussian_blur", (9, 9, 3), "uint8", "HWC", {}), ("gaussian_blur", (9, 9, 3), "uint8", "HWC", {"window_size": 4}),
        ("gaussian_blur", (9, 9, 3), "uint8", "HWC", {"sigma": -1.0}),
        ("gaussian_blur", (9, 9, 3), "uint8", "HWC", {"sigma": [1.0, 2.0, 3.0]}),
        ("gaussian_blur", (9, 9, 3), "bool", "HWC", {"sigma": 1.0}), ("gaussian_blur", (9, 3, 9), "uint8", "HCW", {"sigma": 1.0}),
        ("gaussian_blur", (2, 3), "uint8", "FC", {"sigma": 1.0}), ("gaussian_blur", (2, 3, 2, 2), "uint8", "XYZW", {"sigma": 1.0}),
        ("laplacian", (9, 9, 3), "uint8", "HWC", {"window_size": 2}), ("laplacian", (9, 9, 3), "uint8", "HWC", {"window_size": 33}),
        ("laplacian", (9, 9, 3), "uint8", "HWC", {"smoothing_size": 4}), ("laplacian", (9, 9, 3), "uint8", "HWC", {"window_size": 1}),
        ("laplacian", (9, 9, 3), "uint8", "HWC", {"scale": 2.0, "normalized_kernel": True}),
    ],
)  # fmt: skip
def test_both_refuse(name, shape, dtype, layout, constants):
    assert_both_refuse(name, [np.zeros(shape, dtype)], layout, **constants)
