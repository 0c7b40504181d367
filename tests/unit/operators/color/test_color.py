"""brightness, contrast and brightness_contrast against naive numpy models; all colour operators that do nothing."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import operators as harness

from asyncdali import Pipeline, fn
from asyncdali.errors import SampleError
from asyncdali.types import DALIDataType

F32 = np.float32


def pictures(dtype="uint8", count=4, shape=(6, 7, 3)) -> list[np.ndarray]:
    rng = np.random.default_rng(5)
    return [rng.integers(0, 256, shape).astype(dtype) for _ in range(count)]


def saturated(values: np.ndarray, dtype) -> np.ndarray:
    if np.dtype(dtype).kind == "f":
        return values.astype(dtype)
    info = np.iinfo(dtype)
    wide = values.astype(np.float64)
    return np.clip(np.trunc(wide + np.copysign(0.5, wide)), info.min, info.max).astype(dtype)


@pytest.mark.parametrize("dtype, center, largest", [("uint8", 128, 255), ("int16", 2**14, 2**15 - 1), ("float32", 0.5, 1)])
def test_brightness_contrast(dtype, center, largest):
    factor = np.array([0, 0.5, 1, 1.7], F32)
    samples = pictures(dtype)
    ours = harness.run("brightness_contrast", samples, "HWC", {"brightness": factor, "contrast": factor[::-1]}, brightness_shift=0.25)
    for picture, b, c, result in zip(samples, factor, factor[::-1], ours):
        addend = F32(0.25) * F32(largest) + b * (F32(center) - c * F32(center))
        np.testing.assert_array_equal(result, saturated(picture.astype(F32) * (b * c) + addend, dtype))


def test_brightness_or_contrast_alone():
    samples = pictures()
    np.testing.assert_array_equal(
        harness.run("brightness", samples, "HWC", brightness=1.5), harness.run("brightness_contrast", samples, "HWC", brightness=1.5)
    )
    expected = [saturated(sample * F32(0.2) + F32(7.2), "uint8") for sample in samples]
    np.testing.assert_array_equal(harness.run("contrast", samples, "HWC", contrast=0.2, contrast_center=9.0), expected)


def test_neutral_arguments_change_nothing():
    for name in ("brightness", "contrast", "brightness_contrast", "hue", "saturation", "hsv", "color_twist"):
        np.testing.assert_array_equal(harness.run(name, pictures(), "HWC"), pictures())


@pytest.mark.parametrize("layout, shape", [("FHWC", (2, 4, 5, 3)), ("DHWC", (2, 4, 5, 3)), ("", (2, 4, 5, 3)), ("HWC", (0, 5, 3))])
def test_layouts(layout, shape):
    for name in ("brightness", "hue"):
        np.testing.assert_array_equal(harness.run(name, pictures(shape=shape), layout), pictures(shape=shape))


@pytest.mark.parametrize("dtype", [None, DALIDataType.INT16, DALIDataType.FLOAT])
def test_in_a_pipeline_on_both_devices(dtype):
    kinds = {} if dtype is None else {"dtype": dtype}

    def outputs(device: str) -> list[np.ndarray]:
        pipe = Pipeline(batch_size=3, num_threads=2, device_id=0, seed=3)
        with pipe:
            data = fn.constant(idata=list(range(60)), shape=[4, 5, 3], dtype=DALIDataType.UINT8, layout="HWC")
            data = data.gpu() if device == "gpu" else data
            angle, factor = fn.random.uniform(range=(-90.0, 90.0)), fn.random.uniform(range=(0.5, 2.0))
            pipe.set_outputs(
                fn.brightness_contrast(data, brightness=factor, contrast=factor, **kinds), fn.color_twist(data, hue=angle, **kinds)
            )
        pipe.build()
        results = pipe.run()
        return [np.stack([np.asarray(sample) for sample in (r.as_cpu() if device == "gpu" else r)]) for r in results]

    for a, b in zip(outputs("cpu"), outputs("gpu")):
        assert a.dtype == {None: np.uint8, DALIDataType.INT16: np.int16, DALIDataType.FLOAT: np.float32}[dtype]
        np.testing.assert_array_equal(a, b)
        assert (a[0] != a[1]).any()


@pytest.mark.parametrize(
    "name, sample, layout, constants, text", [
        ("brightness", np.zeros((2, 2, 3), np.uint16), "HWC", {}, "UINT16"),
        ("brightness", np.zeros((2, 2, 3), np.uint8), "HWC", {"dtype": DALIDataType.FLOAT16}, "FLOAT16"),
        ("contrast", np.zeros((3, 2, 2), np.uint8), "CHW", {}, "CHW"),
    ],
)  # fmt: skip
def test_refusals(name, sample, layout, constants, text):
    with pytest.raises((ValueError, SampleError), match=text):
        harness.run(name, [sample], layout, **constants)
