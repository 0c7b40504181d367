"""hue, saturation, hsv and color_twist: no saturation, a full turn of the hue, and the equality of color_twist with its parts."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import operators as harness

from asyncdali.errors import SampleError
from asyncdali.types import DALIDataType

PICTURES = list(np.random.default_rng(5).integers(0, 256, (4, 6, 7, 3), dtype=np.uint8))


def test_grey_without_saturation_and_a_full_turn():
    for result, picture in zip(harness.run("saturation", PICTURES, "HWC", saturation=0.0), PICTURES, strict=True):
        luma = picture @ np.array([0.299, 0.587, 0.114])
        assert np.abs(result - luma[..., None]).max() <= 1.5
    np.testing.assert_array_equal(harness.run("hue", PICTURES, "HWC", hue=360.0), PICTURES)


def test_color_twist_is_its_parts():
    samples = [picture / np.float32(256) for picture in PICTURES]
    twisted = harness.run("color_twist", samples, "HWC", hue=40.0, saturation=0.7, brightness=1.2, contrast=0.8)
    parts = harness.run("hsv", samples, "HWC", hue=40.0, saturation=0.7, dtype=DALIDataType.FLOAT)
    parts = harness.run("contrast", parts, "HWC", contrast=0.8)
    parts = harness.run("brightness", parts, "HWC", brightness=1.2)
    np.testing.assert_allclose(twisted, parts, atol=1e-5)


@pytest.mark.parametrize(
    "name, sample, layout, text", [
        ("hsv", np.zeros((2, 2, 3), np.int8), "HWC", "INT8"), ("hue", np.zeros((2, 2), np.uint8), "", "number of dimensions 2"),
        ("color_twist", np.zeros((2, 2, 1), np.uint8), "HWC", "three channels"),
    ],
)  # fmt: skip
def test_refusals(name, sample, layout, text):
    with pytest.raises((ValueError, SampleError), match=text):
        harness.run(name, [sample], layout)
