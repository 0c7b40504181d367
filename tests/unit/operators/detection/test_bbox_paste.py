"""bbox_paste: boxes on the canvas of paste."""

from __future__ import annotations

import numpy as np
from helpers import operators as harness


def test_boxes_follow_the_picture():
    (boxes,) = harness.run("bbox_paste", [np.array([[0, 0, 1, 1]], np.float32)], ratio=2.0, paste_x=1.0, paste_y=0.0, ltrb=True)
    np.testing.assert_allclose(boxes, [[0.5, 0, 1, 0.5]])
