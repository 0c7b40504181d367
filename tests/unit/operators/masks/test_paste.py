"""paste: the place and the colour of the canvas."""

from __future__ import annotations

import numpy as np
from helpers import operators as harness


def test_the_place_on_the_canvas():
    image = np.arange(1, 31, dtype=np.uint8).reshape(2, 5, 3)
    (canvas,) = harness.run("paste", [image], "HWC", ratio=3.0, paste_x=0.25, paste_y=1.0, fill_value=[7, 8, 9])
    expected = np.broadcast_to(np.array([7, 8, 9], np.uint8), (6, 15, 3)).copy()
    expected[4:, 2:7] = image
    np.testing.assert_array_equal(canvas, expected)
