"""flip: axes and layouts."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import operators as harness


@pytest.mark.parametrize("layout, shape", [("HWC", (3, 4, 2)), ("CHW", (2, 3, 4)), ("FHWC", (2, 3, 4, 1))])
def test_axes(layout, shape):
    data = np.arange(np.prod(shape), dtype=np.int16).reshape(shape)
    for horizontal, vertical in ((0, 0), (1, 0), (0, 1), (1, 1)):
        axes = [layout.index("W")] * horizontal + [layout.index("H")] * vertical
        (found,) = harness.run("flip", [data], layout, horizontal=horizontal, vertical=vertical)
        np.testing.assert_array_equal(found, np.flip(data, axes))
