"""zeros_like: shape, layout and type of the input."""

from __future__ import annotations

import numpy as np
from helpers.tensor_parity import ours

from asyncdali import types


def test_like_the_input():
    film = [np.full((2, 3), 7, np.uint8), np.full((0, 3), 7, np.uint8)]
    found = ours("zeros_like", [film], ["HW"])
    np.testing.assert_array_equal(found.samples[0], np.full((2, 3), 0))
    assert found.samples[0].dtype == np.uint8 and found.samples[1].shape == (0, 3) and found.layout == "HW"
    assert ours("zeros_like", [film], dtype=types.FLOAT).samples[0].dtype == np.float32
