"""sphere: each pixel is copied from a position on its ray from the centre (test_sphere_water.py has the model)."""

from __future__ import annotations

import numpy as np
from helpers import operators as harness


def test_rays_from_the_centre():
    image = np.zeros((9, 9, 1), np.uint8)
    image[4, :, 0] = np.arange(9)
    (made,) = harness.run("sphere", [image], "HWC")
    distance = np.arange(9) - 4
    wanted = np.floor(4.5 + distance * np.abs(distance) / 4).astype(int)  # half of the longer side is 4
    inside = (wanted >= 0) & (wanted < 9)
    np.testing.assert_array_equal(made[4, :, 0], np.where(inside, np.clip(wanted, 0, 8), 0))
