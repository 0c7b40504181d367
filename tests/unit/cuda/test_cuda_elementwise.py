"""Kernels of color_space_conversion, lookup_table, one_hot, coordinates and boxes, compiled for the host, equal the compiled steps."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from helpers import kernels
from helpers.twins import assert_near, both

from asyncdali import types

pytestmark = pytest.mark.skipif(kernels.COMPILER is None, reason="no C++ compiler to build kernels for the host")
SLOW = pytest.mark.slow
SPACES = (types.RGB, types.BGR, types.GRAY, types.YCbCr)


@pytest.mark.parametrize(
    "source, target", [(a, b) if (a, b) == (types.BGR, types.YCbCr) else pytest.param(a, b, marks=SLOW)
                       for a, b in itertools.product(SPACES, SPACES)]
)  # fmt: skip
def test_color_space_conversion(source, target):
    rng = np.random.default_rng(1)
    samples = [rng.integers(0, 256, (*rng.integers(1, 30, 2), 1 if source is types.GRAY else 3), np.uint8) for _ in range(4)]
    assert_near(*both("color_space_conversion", samples, "HWC", image_type=source, output_type=target))


@pytest.mark.parametrize("dtype", ["int16", *[pytest.param(k, marks=SLOW) for k in ("uint8", "int64", "uint64")]])
@pytest.mark.parametrize("out", [types.FLOAT, *[pytest.param(k, marks=SLOW) for k in (types.UINT8, types.FLOAT16, types.INT64)]])
def test_lookup_table(dtype, out):
    rng = np.random.default_rng(2)
    samples = [rng.integers(0 if dtype[0] == "u" else -9, 60, shape).astype(dtype) for shape in ((7, 5), (1, 1), (0, 3), (33, 40))]
    keys = rng.permutation(50)[:30].tolist()
    assert_near(*both("lookup_table", samples, keys=keys, values=rng.uniform(0, 99, 30).tolist(), default_value=-3.0, dtype=out))


@pytest.mark.parametrize("dtype", ["int32", *[pytest.param(k, marks=SLOW) for k in ("float32", "uint8", "float16", "bool")]])
@pytest.mark.parametrize("axis", [-1, pytest.param(0, marks=SLOW), pytest.param(1, marks=SLOW)])
def test_one_hot(dtype, axis):
    rng = np.random.default_rng(3)
    samples = [rng.uniform(-0.5 if dtype[0] in "ub" else -3, 12, shape).astype(dtype) for shape in ((7, 5), (1, 2), (33, 40))]
    assert_near(*both("one_hot", samples, num_classes=9, axis=axis, on_value=4.0, off_value=1.0, dtype=types.UINT8))


def test_coordinates_and_boxes():
    rng = np.random.default_rng(4)
    points = [rng.uniform(0, 1, (count, 3)).astype(np.float32) for count in (5, 0, 300)]
    flags = {name: rng.integers(0, 2, 3).astype(np.int32) for name in ("flip_x", "flip_z")}
    assert_near(*both("coord_flip", points, "", flags, center_y=0.3, flip_y=1))
    boxes = [rng.uniform(0, 1, (count, 4)).astype(np.float32) for count in (5, 0, 300)]
    flags = {name: rng.integers(0, 2, 3).astype(np.int32) for name in ("horizontal", "vertical")}
    for ltrb in (False, True):
        assert_near(*both("bb_flip", boxes, "", flags, ltrb=ltrb))
    assert_near(*both("coord_transform", points, "", {"M": rng.normal(size=(3, 2, 3)).astype(np.float32)}, T=[1.0, 2.0]))


@pytest.mark.parametrize("policy", ["reflect", *[pytest.param(k, marks=SLOW) for k in ("edge", "wrap", "reflect_101")]])
def test_slice_beyond_its_bounds(policy):
    rng = np.random.default_rng(5)
    samples = [rng.integers(0, 99, (*rng.integers(1, 9, 2), 3), np.int16) for _ in range(4)]
    window = {"start": [-7, 2], "shape": [25, 11], "axes": [0, 1], "out_of_bounds_policy": policy}
    assert_near(*both("slice", samples, "HWC", **window))
    assert_near(*both("slice", samples, "HWC", **window, dtype=types.FLOAT16))


@pytest.mark.parametrize("dtype", ["uint8", pytest.param("float32", marks=SLOW)])
def test_grid_mask(dtype):
    rng = np.random.default_rng(6)
    samples = [rng.integers(1, 99, (*rng.integers(1, 60, 2), 3)).astype(dtype) for _ in range(4)]
    named = {"angle": rng.uniform(0, 6, 4).astype(np.float32), "tile": rng.integers(3, 40, 4).astype(np.int32)}
    assert_near(*both("grid_mask", samples, "HWC", named, ratio=0.4, shift_x=5.0))


def test_grid_mask_of_pixels_of_three_bytes():
    """Samples that begin anywhere in a line, frames, empty samples; and batches of other pixels."""
    rng = np.random.default_rng(7)
    batches = [
        [(5, 7, 3), (37, 41, 3), (64, 100, 3), (1, 1, 3), (3, 200, 3)], [(0, 4, 3), (4, 0, 3), (2, 2, 3)], [(9, 9, 3), (8, 8, 2)],
        [(40, 9, 1)],
    ]
    for shapes in batches:
        samples = [rng.integers(1, 256, shape).astype(np.uint8) for shape in shapes]
        assert_near(*both("grid_mask", samples, "HWC", tile=5, angle=0.7, ratio=0.4, shift_x=5.0))
    assert_near(*both("grid_mask", [rng.integers(1, 256, (4, 9, 11, 3)).astype(np.uint8)] * 2, "FHWC", tile=5, ratio=0.4, angle=0.3))
