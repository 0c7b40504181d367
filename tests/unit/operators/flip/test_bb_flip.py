"""bb_flip: boxes after a flip."""

from __future__ import annotations

import numpy as np
from helpers import operators as harness


def test_boxes_keep_their_order():
    corners = np.array([[0.1, 0.2, 0.4, 0.7]], np.float32)
    np.testing.assert_allclose(harness.run("bb_flip", [corners], ltrb=True, horizontal=1, vertical=0)[0], [[0.6, 0.2, 0.9, 0.7]], rtol=1e-6)
    sized = np.array([[0.1, 0.2, 0.3, 0.5]], np.float32)
    np.testing.assert_allclose(harness.run("bb_flip", [sized], horizontal=0, vertical=1)[0], [[0.1, 0.3, 0.3, 0.5]], rtol=1e-6)
