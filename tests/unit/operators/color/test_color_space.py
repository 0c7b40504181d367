"""color_space_conversion: conversions and their inverses, and grey."""

from __future__ import annotations

import numpy as np
from helpers import operators as harness

from asyncdali import types


def test_a_conversion_and_its_inverse_restore_the_picture():
    image = np.random.default_rng(6).integers(0, 256, (9, 8, 3), dtype=np.uint8)
    (turned,) = harness.run("color_space_conversion", [image], "HWC", image_type=types.RGB, output_type=types.BGR)
    np.testing.assert_array_equal(turned, image[..., ::-1])
    (luma,) = harness.run("color_space_conversion", [image], "HWC", image_type=types.RGB, output_type=types.YCbCr)
    (back,) = harness.run("color_space_conversion", [luma], "HWC", image_type=types.YCbCr, output_type=types.RGB)
    inside = (image > 8).all(-1) & (image < 247).all(-1)
    assert np.abs(back.astype(int) - image)[inside].max() <= 4


def test_grey_is_the_weighted_sum():
    image = np.random.default_rng(6).integers(0, 256, (9, 8, 3), dtype=np.uint8)
    (grey,) = harness.run("color_space_conversion", [image], "HWC", image_type=types.RGB, output_type=types.GRAY)
    np.testing.assert_allclose(grey[..., 0], image @ [0.299, 0.587, 0.114], atol=0.51)
