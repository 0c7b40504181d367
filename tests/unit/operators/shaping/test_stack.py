"""stack: the new axis and its name."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.tensor_parity import ours

FIRST, SECOND = [np.arange(6).reshape(2, 3)], [np.arange(6, 12).reshape(2, 3)]


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2])
def test_the_axis_counts_in_the_output(axis):
    found = ours("stack", [FIRST, SECOND], axis=axis)
    np.testing.assert_array_equal(found.samples[0], np.stack([FIRST[0], SECOND[0]], axis))
    assert found.layout == ""


def test_a_name_for_the_axis_gives_a_layout():
    assert ours("stack", [FIRST, SECOND], ["HW", "HW"], axis=1, axis_name="F").layout == "HFW"
    assert ours("stack", [[np.float32(1)], [np.float32(2)]], axis_name="C").layout == "C"
