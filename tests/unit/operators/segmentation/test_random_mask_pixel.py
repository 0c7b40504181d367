"""segmentation.random_mask_pixel: all pixels of the foreground are equally likely."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import operators as harness

from asyncdali.errors import SampleError

NAME = "segmentation.random_mask_pixel"


def test_foreground_pixels_are_equally_likely():
    mask = np.zeros((4, 5), np.int32)
    mask[1, 2], mask[3, 4], mask[0, 0] = 7, 7, 3
    picked = np.array(harness.run(NAME, [mask] * 2000, foreground=1, value=7, seed=3))
    assert {tuple(pixel) for pixel in picked.tolist()} == {(1, 2), (3, 4)}
    assert 0.45 < (picked[:, 0] == 1).mean() < 0.55
    above = {tuple(pixel) for pixel in np.array(harness.run(NAME, [mask] * 200, foreground=1, threshold=2.0, seed=3)).tolist()}
    assert above == {(0, 0), (1, 2), (3, 4)}


def test_any_pixel_without_foreground():
    mask = np.zeros((3, 2), np.uint8)
    picked = np.array(harness.run(NAME, [mask] * 500, foreground=1, seed=3))
    assert {tuple(pixel) for pixel in picked.tolist()} == {(y, x) for y in range(3) for x in range(2)}


def test_an_empty_mask_is_refused():
    with pytest.raises(SampleError, match="the mask is empty"):
        harness.run(NAME, [np.zeros((0, 3), np.uint8)])
