"""crop: windows by position and beyond the edge."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import operators as harness

from asyncdali.operators.base import SampleError

IMAGE = np.arange(5 * 7 * 3, dtype=np.uint8).reshape(5, 7, 3)


@pytest.mark.parametrize("y, x", [(0.0, 0.0), (0.5, 0.5), (1.0, 0.25)])
def test_the_position_is_a_fraction_of_the_remaining_extent(y, x):
    (found,) = harness.run("crop", [IMAGE], "HWC", crop=[3, 4], crop_pos_y=y, crop_pos_x=x)
    top, left = int(y * 2 + 0.5), int(x * 3 + 0.5)
    np.testing.assert_array_equal(found, IMAGE[top : top + 3, left : left + 4])


def test_a_window_beyond_the_image():
    with pytest.raises(SampleError, match="out of bounds"):
        harness.run("crop", [IMAGE], "HWC", crop=[9, 4])
    (padded,) = harness.run("crop", [IMAGE], "HWC", crop=[7, 7], out_of_bounds_policy="pad", fill_values=9)
    np.testing.assert_array_equal(padded[1:6], IMAGE)
    assert (padded[[0, 6]] == 9).all()
