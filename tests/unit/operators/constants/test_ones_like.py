"""ones_like: shape, layout and type of the input."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.tensor_parity import ours

from asyncdali import types


def test_like_the_input():
    film = [np.full((2, 3), 7, np.uint8), np.full((0, 3), 7, np.uint8)]
    found = ours("ones_like", [film], ["HW"])
    np.testing.assert_array_equal(found.samples[0], np.full((2, 3), 1))
    assert found.samples[0].dtype == np.uint8 and found.samples[1].shape == (0, 3) and found.layout == "HW"
    assert ours("ones_like", [film], dtype=types.FLOAT).samples[0].dtype == np.float32


@pytest.mark.parametrize("kind", [types.UINT8, types.INT16, types.FLOAT, types.FLOAT64])
def test_large_samples_are_filled_to_the_last_element(kind):
    """Longer elements are filled by copies of a block, and extents need not be a multiple of the block."""
    film = [np.zeros((241, 353), np.uint8)] * 2
    for sample in ours("ones_like", [film], dtype=kind).samples:
        assert sample.shape == (241, 353)
        assert (sample == 1).all()
    ragged = [np.zeros((241, 353), np.uint8), np.zeros((7, 11), np.uint8)]
    assert all((sample == 1).all() for sample in ours("ones_like", [ragged], dtype=kind).samples)
