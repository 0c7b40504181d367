"""contrast: distance from a centre."""

from __future__ import annotations

import numpy as np
from helpers import operators as harness


def test_the_centre_stays():
    image = np.uint8([[[28, 128, 228]]])
    assert harness.run("contrast", [image], "HWC", contrast=0.5)[0].tolist() == [[[78, 128, 178]]]
    assert harness.run("contrast", [image], "HWC", contrast=2.0, contrast_center=28.0)[0].tolist() == [[[28, 228, 255]]]
