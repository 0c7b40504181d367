"""hue: colours are rotated, and grey does not change."""

from __future__ import annotations

import numpy as np
from helpers import operators as harness


def test_rotations_add_up_and_grey_does_not_change():
    image = np.float32([[[0.9, 0.1, 0.2], [0.5, 0.5, 0.5]]])
    (once,) = harness.run("hue", [image], "HWC", hue=120.0)
    assert np.abs(once[0, 0] - image[0, 0]).max() > 0.3
    np.testing.assert_allclose(once[0, 1], image[0, 1], atol=2e-3)
    (back,) = harness.run("hue", [once], "HWC", hue=-120.0)
    np.testing.assert_allclose(back, image, atol=3e-3)
