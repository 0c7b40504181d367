"""crop_mirror_normalize: window, mirror, mean and deviation in one call."""

from __future__ import annotations

import numpy as np
from helpers import operators as harness

from asyncdali import types


def test_the_operator_equals_its_parts():
    image = np.random.default_rng(2).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    mean, std = [10.0, 20.0, 30.0], [2.0, 4.0, 8.0]
    for mirror in (0, 1):
        (found,) = harness.run(
            "crop_mirror_normalize", [image], "HWC", crop=[4, 5], crop_pos_y=0.0, crop_pos_x=0.0, mean=mean, std=std, mirror=mirror
        )
        window = image[:4, :5][:, :: -1 if mirror else 1]
        np.testing.assert_allclose(found, ((window - np.float32(mean)) / np.float32(std)).transpose(2, 0, 1), rtol=1e-6)


def test_the_layout_of_the_output():
    image = np.ones((2, 3, 1), np.uint8)
    assert harness.run("crop_mirror_normalize", [image], "HWC", output_layout="HWC")[0].shape == (2, 3, 1)
    assert harness.run("crop_mirror_normalize", [image], "HWC", dtype=types.FLOAT16)[0].dtype == np.float16
