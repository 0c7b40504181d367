"""full_like: shape, type and layout of the first input."""

from __future__ import annotations

import numpy as np
from helpers.tensor_parity import Failed, ours


def test_values_are_repeated_and_converted():
    found = ours("full_like", [[np.zeros((2, 3), np.uint8)], [np.float32([300, -1, 1.5])]], ["HW", ""])
    np.testing.assert_array_equal(found.samples[0], [[255, 0, 2]] * 2)
    assert found.samples[0].dtype == np.uint8 and found.layout == "HW"


def test_data_that_do_not_fit_are_refused():
    result = ours("full_like", [[np.zeros((2, 3))], [np.zeros(2)]])
    assert isinstance(result, Failed) and "data of shape (2,) cannot be broadcast to shape (2, 3)" in result.message


def test_a_scalar_fills_large_samples():
    found = ours("full_like", [[np.zeros((61, 73, 3), np.uint8)], [np.int32(300)]], ["HWC", ""])
    np.testing.assert_array_equal(found.samples[0], np.full((61, 73, 3), 255))
