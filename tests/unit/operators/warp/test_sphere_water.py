"""sphere and water move every pixel by a displacement."""

from __future__ import annotations

import re

import numpy as np
import pytest
from helpers import operators as harness
from helpers.images import picture
from helpers.tensor_parity import Failed, ours

from asyncdali import types

LINEAR = types.INTERP_LINEAR


def sphere(height, width):
    """The source positions of the pixels of an image, with pixel centres at halves."""
    y, x = np.mgrid[0:height, 0:width] + 0.5
    dx, dy = x - width / 2, y - height / 2
    part = np.hypot(dx, dy) / max(height // 2, width // 2)
    return width / 2 + part * dx, height / 2 + part * dy


def water(height, width, ampl_x=10.0, ampl_y=10.0, freq_x=np.pi / 64, freq_y=np.pi / 64, phase_x=0.0, phase_y=0.0):
    y, x = np.mgrid[0:height, 0:width].astype(float)
    return x + ampl_x * np.sin(freq_x * y + phase_x), y + ampl_y * np.cos(freq_y * x + phase_y)


def taps(image, x, y, fill):
    inside = (x >= 0) & (x < image.shape[1]) & (y >= 0) & (y < image.shape[0])
    return np.where(inside[..., None], image[np.clip(y, 0, image.shape[0] - 1), np.clip(x, 0, image.shape[1] - 1)], fill)


def sampled(image, x, y, fill, linear):
    image = image.astype(float)
    if not linear:
        return taps(image, np.floor(x).astype(int), np.floor(y).astype(int), fill)
    x, y = x - 0.5, y - 0.5
    left, top = np.floor(x).astype(int), np.floor(y).astype(int)
    total = np.zeros_like(image)
    for dy in (0, 1):
        for dx in (0, 1):
            weight = (x - left if dx else left + 1 - x) * (y - top if dy else top + 1 - y)
            total += weight[..., None] * taps(image, left + dx, top + dy, fill)
    return total


WAVES = {"ampl_x": 4.0, "ampl_y": -7.0, "freq_x": 0.3, "freq_y": 0.7, "phase_x": 1.0, "phase_y": 2.0}


@pytest.mark.parametrize("dtype", ["uint8", pytest.param("float32", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name, arguments", [("sphere", {}), ("water", {}), ("water", WAVES)])
def test_pixels_come_from_the_positions_of_the_formula(name, arguments, dtype):
    images = [picture(height, width, 3, 1).reshape(height, width, 3).astype(dtype) for height, width in ((17, 40), (30, 23), (1, 9))]
    where = sphere if name == "sphere" else water
    for linear in (False, True):
        options = {**arguments, "fill_value": 9.0, **({"interp_type": LINEAR} if linear else {})}
        for image, made in zip(images, harness.run(name, images, "HWC", **options), strict=True):
            x, y = where(*image.shape[:2], **arguments)
            wanted = sampled(image, x, y, 9.0, linear)
            assert made.dtype == image.dtype and made.shape == image.shape
            wrong = np.abs(made - wanted) > (1e-2 if dtype == "float32" else 0.51)
            # The last bit decides about positions on the edge of a pixel.
            assert not wrong[(np.abs(x - np.round(x)) > 1e-4) & (np.abs(y - np.round(y)) > 1e-4)].any()
            assert wrong.mean() < 0.05


def test_masked_samples_and_empty_ones_stay():
    images = [picture(12, 15, 3, k) for k in range(3)]
    warped = harness.run("sphere", images, "HWC")
    some = harness.run("sphere", images, "HWC", {"mask": np.int32([0, 1, 5])})
    np.testing.assert_array_equal(some[0], images[0])
    for k in (1, 2):
        np.testing.assert_array_equal(some[k], warped[k])
        assert (some[k] != images[k]).any()
    np.testing.assert_array_equal(harness.run("sphere", images, "HWC", mask=0)[1], images[1])
    assert harness.run("sphere", [np.zeros((0, 4, 3), np.uint8)], "HWC")[0].shape == (0, 4, 3)


def test_fill_values_and_positions_that_are_nan():
    image = np.full((20, 20, 1), 7, np.uint8)
    assert harness.run("sphere", [image], "HWC", fill_value=-3.0)[0][0, 0, 0] == 253
    assert (harness.run("water", [image], "HWC", ampl_x=float("nan"), fill_value=258.5)[0] == 2).all()
    assert (harness.run("water", [image], "HWC", ampl_y=1e30, interp_type=LINEAR)[0][:, 0] == 0).all()


@pytest.mark.parametrize(
    "sample, layout, constants, message", [
        (np.zeros((4, 5, 3), np.int16), "HWC", {}, "UINT8, FLOAT"), (np.zeros((3, 4, 5), np.uint8), "CHW", {}, "CHW"),
        (np.zeros((4, 5), np.uint8), "", {}, "dimensions 2"),
        (np.zeros((4, 5, 3), np.uint8), "HWC", {"interp_type": types.INTERP_CUBIC}, "linear"),
    ],
)  # fmt: skip
def test_refusals(sample, layout, constants, message):
    for name in ("sphere", "water"):
        result = ours(name, [[sample]], [layout], **constants)
        assert isinstance(result, Failed) and re.search(message, result.message), result
