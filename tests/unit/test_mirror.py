"""coord_flip and bb_flip: coordinates after a flip."""

from __future__ import annotations

import numpy as np
from helpers import operators as harness


def test_points():
    points = np.array([[0.1, 0.2], [0.6, 1.0]], np.float32)
    (found,) = harness.run("coord_flip", [points], flip_x=1, flip_y=1)
    np.testing.assert_allclose(found, 1 - points, rtol=1e-6)
    (about,) = harness.run("coord_flip", [points], flip_x=0, flip_y=1, center_y=0.25)
    np.testing.assert_allclose(about, points * [1, -1] + [0, 0.5], rtol=1e-6, atol=1e-7)


def test_boxes_keep_their_order():
    corners = np.array([[0.1, 0.2, 0.4, 0.7]], np.float32)
    np.testing.assert_allclose(harness.run("bb_flip", [corners], ltrb=True, horizontal=1, vertical=0)[0], [[0.6, 0.2, 0.9, 0.7]], rtol=1e-6)
    sized = np.array([[0.1, 0.2, 0.3, 0.5]], np.float32)
    np.testing.assert_allclose(harness.run("bb_flip", [sized], horizontal=0, vertical=1)[0], [[0.1, 0.3, 0.3, 0.5]], rtol=1e-6)
