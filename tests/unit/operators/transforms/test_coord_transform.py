"""coord_transform: points times a matrix."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import operators as harness

from asyncdali import types


def test_affine_maps():
    points = np.random.default_rng(1).standard_normal((7, 2)).astype(np.float32)
    matrix = np.array([[1, 2], [0, -1], [3, 0.5]], np.float32)
    (found,) = harness.run("coord_transform", [points], M=matrix.ravel().tolist(), T=[1.0, -2.0, 0.5])
    np.testing.assert_allclose(found, points @ matrix.T + [1, -2, 0.5], rtol=1e-5, atol=1e-6)
    (together,) = harness.run("coord_transform", [points], MT=np.hstack([matrix, [[1], [-2], [0.5]]]).ravel().tolist())
    np.testing.assert_allclose(together, found, rtol=1e-6)


def test_integers_saturate():
    (found,) = harness.run("coord_transform", [np.array([[100, -100]], np.int16)], M=[1000.0, 0.0, 0.0, 1000.0], dtype=types.INT16)
    assert found.tolist() == [[2**15 - 1, -(2**15)]]


@pytest.mark.parametrize("kind", [np.float64, np.float16, np.int64, np.uint32, np.int8, np.bool_])
def test_points_of_other_types_are_refused_and_empty_ones_are_not(kind):
    with pytest.raises(ValueError, match="points of type .* are not supported"):
        harness.run("coord_transform", [np.array([[1, 0], [1, 1]], kind)], M=[2.0, 0.0, 0.0, 3.0], T=[1.0, 0.0])
    (found,) = harness.run("coord_transform", [np.zeros((0, 2), kind)], M=[2.0, 0.0, 0.0, 3.0], T=[1.0, 0.0])
    assert found.dtype == np.float32 and found.shape == (0, 2)


def test_samples_without_points_have_the_coordinates_of_the_others():
    found = harness.run("coord_transform", [np.zeros((0, 5), np.float32), np.ones((2, 2), np.float32)], M=[1.0, 0.0, 0.0, 1.0, 1.0, 1.0])
    assert [sample.shape for sample in found] == [(0, 3), (2, 3)]
    (found,) = harness.run("coord_transform", [np.zeros((0, 2))], M=[1.0, 0.0, 0.0, 1.0, 1.0, 1.0])
    assert found.shape == (0, 3)
