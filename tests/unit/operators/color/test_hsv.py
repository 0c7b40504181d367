"""hsv: hue, saturation and value in one step."""

from __future__ import annotations

import numpy as np
from helpers import operators as harness

from asyncdali.types import DALIDataType


def test_hsv_is_its_parts():
    image = np.float32([[[0.9, 0.1, 0.2], [0.4, 0.5, 0.6]]])
    (whole,) = harness.run("hsv", [image], "HWC", hue=30.0, saturation=0.5, value=0.7, dtype=DALIDataType.FLOAT)
    (parts,) = harness.run("saturation", harness.run("hue", [image], "HWC", hue=30.0), "HWC", saturation=0.5)
    np.testing.assert_allclose(whole, parts * 0.7, atol=3e-3)
