"""brightness_contrast: contrast, then brightness (test_color.py has the model)."""

from __future__ import annotations

import numpy as np
from helpers import operators as harness


def test_contrast_comes_first():
    image = np.float32([[[0.25, 0.5, 0.75]]])
    (made,) = harness.run("brightness_contrast", [image], "HWC", brightness=2.0, contrast=2.0, brightness_shift=0.5)
    np.testing.assert_allclose(made, [[[0.5, 1.5, 2.5]]], rtol=1e-6)
