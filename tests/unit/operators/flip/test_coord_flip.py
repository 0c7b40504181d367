"""coord_flip: points after a flip."""

from __future__ import annotations

import numpy as np
from helpers import operators as harness


def test_points():
    points = np.array([[0.1, 0.2], [0.6, 1.0]], np.float32)
    (found,) = harness.run("coord_flip", [points], flip_x=1, flip_y=1)
    np.testing.assert_allclose(found, 1 - points, rtol=1e-6)
    (about,) = harness.run("coord_flip", [points], flip_x=0, flip_y=1, center_y=0.25)
    np.testing.assert_allclose(about, points * [1, -1] + [0, 0.5], rtol=1e-6, atol=1e-7)
