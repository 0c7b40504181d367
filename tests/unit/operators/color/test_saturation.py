"""saturation: the chroma is multiplied by a factor."""

from __future__ import annotations

import numpy as np
from helpers import operators as harness


def test_factors_multiply():
    image = np.float32([[[0.9, 0.1, 0.2], [0.5, 0.5, 0.5]]])
    (half,) = harness.run("saturation", [image], "HWC", saturation=0.5)
    np.testing.assert_allclose(np.ptp(half, axis=-1), np.ptp(image, axis=-1) / 2, atol=3e-3)
    np.testing.assert_allclose(harness.run("saturation", [half], "HWC", saturation=2.0)[0], image, atol=3e-3)
