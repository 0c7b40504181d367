"""brightness: factor and shift."""

from __future__ import annotations

import numpy as np
from helpers import operators as harness


def test_factor_and_shift_saturate():
    image = np.uint8([[[10, 100, 200]]])
    assert harness.run("brightness", [image], "HWC", brightness=1.5)[0].tolist() == [[[15, 150, 255]]]
    assert harness.run("brightness", [image], "HWC", brightness_shift=-0.2)[0].tolist() == [[[0, 49, 149]]]
