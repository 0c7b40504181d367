"""grid_mask: whole and shifted tiles."""

from __future__ import annotations

import numpy as np
from helpers import operators as harness


def test_grid_mask_of_whole_tiles():
    image = np.ones((12, 12, 2), np.int16)
    (masked,) = harness.run("grid_mask", [image], "HWC", tile=6, ratio=0.5)
    rows = np.arange(12) % 6 < 3
    np.testing.assert_array_equal(masked[..., 0] == 0, rows[:, None] & rows[None])
    (moved,) = harness.run("grid_mask", [image], "HWC", tile=6, ratio=0.5, shift_x=3.0)
    np.testing.assert_array_equal(moved[..., 1] == 0, rows[:, None] & ~rows[None])
