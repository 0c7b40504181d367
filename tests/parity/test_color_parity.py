"""Colour operators beside DALI's: equal to the last bit for every pair of input and output types."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
from helpers import operators as harness

from asyncdali.batch import from_numpy_dtype

dali = pytest.importorskip("nvidia.dali")
fn, types = importlib.import_module("nvidia.dali.fn"), importlib.import_module("nvidia.dali.types")

F32 = np.float32
TYPES = ["uint8", "int16", "int32", "float32"]
# Range of each argument's random values.
ARGUMENTS = {
    "brightness": {"brightness": (-0.5, 2), "brightness_shift": (-0.5, 0.5)},
    "contrast": {"contrast": (-0.5, 2), "contrast_center": (-1, 300)},
    "brightness_contrast": {"brightness": (0, 2), "brightness_shift": (-0.5, 0.5), "contrast": (0, 2), "contrast_center": (-1, 300)},
    "hue": {"hue": (-720, 720)},
    "saturation": {"saturation": (-0.5, 2)},
    "hsv": {"hue": (-720, 720), "saturation": (0, 2), "value": (0, 2)},
    "color_twist": {"hue": (-720, 720), "saturation": (0, 2), "brightness": (0, 2), "contrast": (0, 2)},
}


def dali_run(
    name: str, samples: list[np.ndarray], layout: str, per_sample: dict[str, Any] | None = None, **constants: Any
) -> list[np.ndarray]:
    """The output of a DALI operator on the CPU."""

    @dali.pipeline_def(batch_size=len(samples), num_threads=1, device_id=None, prefetch_queue_depth=1)
    def pipeline():
        data = fn.external_source(lambda: samples, layout=layout or None)
        nodes = {key: fn.external_source(_feeder(value)) for key, value in (per_sample or {}).items()}
        given = {key: types.DALIDataType(int(value)) if key == "dtype" else value for key, value in constants.items()}
        return getattr(fn, name)(data, **nodes, **given)

    built = pipeline()
    built.build()
    (output,) = built.run()
    return [np.array(output.at(i)) for i in range(len(samples))]


def _feeder(values: Any) -> Any:
    return lambda: list(values)


def assert_same(name: str, samples: list[np.ndarray], layout: str, per_sample: dict[str, Any] | None = None, **constants: Any) -> None:
    theirs = dali_run(name, samples, layout, per_sample, **constants)
    ours = harness.run(name, samples, layout, per_sample, **constants)
    for a, b in zip(theirs, ours, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


def random_samples(rng: np.random.Generator, dtype: str, count: int, shape: tuple[int, ...] = (5, 11, 3)) -> list[np.ndarray]:
    if dtype.startswith("float"):
        return [rng.uniform(-50, 400, shape).astype(dtype) for _ in range(count)]
    info = np.iinfo(dtype)
    # Half of the values are small, because nearly all results of large values saturate.
    largest = [info.max if k % 2 else 300 for k in range(count)]
    return [rng.integers(0 if high == 300 else info.min, min(high, info.max), shape, dtype, endpoint=True) for high in largest]


@pytest.mark.parametrize("name", list(ARGUMENTS))
def test_every_pair_of_types(name):
    kinds = TYPES if name in ("brightness", "contrast", "brightness_contrast") else [*TYPES, "float16"]
    for source in kinds:
        for target in kinds:
            rng = np.random.default_rng([len(source), len(target)])
            per_sample = {key: rng.uniform(low, high, 40).astype(F32) for key, (low, high) in ARGUMENTS[name].items()}
            assert_same(name, random_samples(rng, source, 40), "HWC", per_sample, dtype=from_numpy_dtype(target))


@pytest.mark.parametrize("name", list(ARGUMENTS))
def test_constants_and_defaults(name):
    for dtype in TYPES:
        rng = np.random.default_rng(0)
        samples = random_samples(rng, dtype, 6)
        assert_same(name, samples, "HWC")
        for key, (low, high) in ARGUMENTS[name].items():
            assert_same(name, samples, "HWC", **{key: float(F32(rng.uniform(low, high)))})


@pytest.mark.parametrize("layout, shape", [("FHWC", (2, 4, 5, 3)), ("DHWC", (3, 4, 5, 3)), ("", (4, 5, 3)), ("", (2, 4, 5, 3))])
def test_layouts(layout, shape):
    samples = random_samples(np.random.default_rng(1), "uint8", 3, shape)
    for name, constants in (("brightness_contrast", {"contrast": 0.7}), ("color_twist", {"hue": 25.0, "contrast": 0.6})):
        assert_same(name, samples, layout, **constants)


@pytest.mark.parametrize("channels", [1, 2, 4, 5])
def test_brightness_of_any_channels(channels):
    samples = random_samples(np.random.default_rng(2), "uint8", 3, (4, 5, channels))
    assert_same("brightness_contrast", samples, "HWC", brightness=1.3)


def test_edges_of_rounding():
    values = [0.49999997, 0.5, 1.5, 2.5, -0.5, 254.5, 255.5, -300, np.nan, np.inf, -np.inf, 32767.5, 2147483520, 2147483648, 3e9]
    samples = [np.array(values, F32).reshape(1, -1, 3)]
    for name in ("brightness", "contrast"):
        for target in TYPES:
            assert_same(name, samples, "HWC", dtype=from_numpy_dtype(target))


def test_halves_round_ties_away_from_zero():
    halves = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(F32)
    ties = (halves[1:] + halves[:-1]) / 2
    large = np.array([np.inf, -np.inf, 65519, 65520, 1e9], F32)
    around = np.concatenate([ties, -ties, np.nextafter(ties, F32(0)), np.nextafter(ties, F32(1e9)), halves, large])
    assert_same("cast", [around], "", dtype=from_numpy_dtype("float16"))


@pytest.mark.parametrize(
    "name, shape, dtype, layout, constants", [
        ("brightness", (2, 2, 3), "uint16", "HWC", {}), ("brightness", (2, 2, 3), "uint8", "CHW", {}), ("hue", (2, 2), "uint8", "", {}),
        ("brightness", (2, 2, 3), "float16", "HWC", {}), ("hsv", (2, 2, 3), "float64", "HWC", {}),
        ("contrast", (2, 2, 3), "uint8", "HWC", {"dtype": from_numpy_dtype("int8")}),
        ("color_twist", (2, 2, 3), "uint8", "HWC", {"dtype": from_numpy_dtype("float64")}),
    ],
)  # fmt: skip
def test_both_refuse(name, shape, dtype, layout, constants):
    samples = [np.zeros(shape, dtype)]
    with pytest.raises((RuntimeError, ValueError)):
        dali_run(name, samples, layout, **constants)
    with pytest.raises(ValueError):
        harness.run(name, samples, layout, **constants)
