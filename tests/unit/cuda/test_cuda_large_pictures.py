"""Kernels whose threads share the work of large pictures, compiled for the host, beside the compiled steps: edges of rows, and memory that
is not aligned. Samples of a batch follow each other in memory, so odd sizes give every alignment."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import kernels
from helpers.twins import both

from asyncdali import types

pytestmark = pytest.mark.skipif(kernels.COMPILER is None, reason="no C++ compiler to build kernels for the host")
SLOW = pytest.mark.slow
CHANNELS = [3, *[pytest.param(count, marks=SLOW) for count in (1, 2, 4, 5)]]


def pictures(shapes, channels, dtype="uint8"):
    rng = np.random.default_rng(7)
    return [rng.integers(0, 256, (*shape, channels)).astype(dtype) for shape in shapes]


def assert_rarely_apart(expected, found, part=0.01):
    """Bytes and other integers differ by at most one, and rarely, because weights are computed by different compilers."""
    for a, b in zip(expected, found, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        apart = np.abs(a.astype(np.float64) - b.astype(np.float64))
        assert apart.max(initial=0) <= 1 and (apart > 1e-3 * np.abs(a)).mean() <= part


@pytest.mark.parametrize("channels", CHANNELS)
@pytest.mark.parametrize("dtype", ["uint8", *[pytest.param(dtype, marks=SLOW) for dtype in ("int16", "float32")]])
def test_many_rows_become_few(channels, dtype):
    """Source rows are read in lines of 16 bytes: rows of 16 * n bytes and others, a single column, and reversed pictures."""
    sizes = {(311, 1201): (5, 37), (200, 1280): (9, 300), (90, 2003): (4, -21), (257, 1): (3, 1), (1, 1): (2, 2)}
    size = np.array([*sizes.values()], np.float32)
    assert_rarely_apart(*both("resize", pictures(sizes, channels, dtype), "HWC", {"size": size}))


def test_a_region_of_many_rows():
    """The region begins within a line of 16 bytes."""
    region = {"roi_start": [0.11, 0.07], "roi_end": [0.93, 0.96], "roi_relative": True}
    shapes = [(311, 1201), (400, 1280), (301, 999)]
    assert_rarely_apart(*both("resize", pictures(shapes, 3), "HWC", size=[6.0, 31.0], **region))
    clips = [np.stack([picture] * 2) for picture in pictures(shapes[:1], 3)]
    assert_rarely_apart(*both("resize", clips, "FHWC", size=[6.0, 31.0], **region))


@pytest.mark.parametrize("kind", [types.INTERP_LINEAR, types.INTERP_NN], ids=["linear", "nearest"])
@pytest.mark.parametrize("constants", [{"fill_value": 9.0}, {}], ids=["fill", "border"])
@pytest.mark.parametrize("channels", [3, pytest.param(1, marks=SLOW), pytest.param(4, marks=SLOW)])
def test_every_alignment_of_turned_rows(channels, constants, kind):
    """Four pixels are computed together where the output's words begin. Rows of 1 to 9 pixels, and rows longer than a tile."""
    for width in (*range(1, 10), 255, 257, 258):
        samples = pictures([(5, 7), (31, 43), (1, 1), (2, 9)], channels)
        size = [7.0, float(width)]
        found = both("rotate", samples, "HWC", angle=17.0, size=size, interp_type=kind, **constants)
        if kind == types.INTERP_NN:
            for a, b in zip(*found, strict=True):
                np.testing.assert_array_equal(a, b)
        else:
            assert_rarely_apart(*found, part=0.05)


@pytest.mark.parametrize("name", ["sphere", "water", "experimental.warp_perspective"])
@pytest.mark.parametrize("kind", [types.INTERP_LINEAR, types.INTERP_NN], ids=["linear", "nearest"])
def test_every_alignment_of_displaced_rows(name, kind):
    """Rows of 1 to 9 pixels and long ones, with groups inside, outside and at the border."""
    shapes = [(6, width) for width in range(1, 10)] + [(3, 515), (40, 61)]
    options = {"water": {"ampl_x": 4.5, "ampl_y": 3.0, "freq_y": 0.2}, "sphere": {}}.get(name)
    if options is None:
        options = {"matrix": [0.9, 0.1, 1.3, -0.1, 1.1, 0.7, 1e-3, 2e-3, 1.0]}
    expected, found = both(name, pictures(shapes, 3), "HWC", interp_type=kind, fill_value=9.0, **options)
    if kind == types.INTERP_NN and name != "experimental.warp_perspective":
        for a, b in zip(expected, found, strict=True):
            np.testing.assert_array_equal(a, b)
    elif kind == types.INTERP_NN:  # OpenCV's rounding of a position depends on the processor
        assert np.mean([(a != b).mean() for a, b in zip(expected, found, strict=True)]) <= 0.01
    else:
        assert_rarely_apart(expected, found, part=0.02)


@pytest.mark.parametrize("matrix", [
    [1.0, 0.0, 0.0, 0.0, 1.0, 0.0], [0.01, 0.0, 0.0, 0.0, 0.01, 0.0], [1.0, 0.0, 1e30, 0.0, 1.0, 0.0], [1.0, 0.0, 4194303.0, 0.0, 1.0, 0.0],
    [1.0, 0.0, -8388609.0, 0.0, 1.0, 0.0], [1e-3, 0.0, -1e-9, 0.0, 1e-3, 1e-9],
])  # fmt: skip
def test_positions_near_and_far(matrix):
    """Positions on pixels, between two pixels of the border, and beyond the numbers whose integer part is exact in 22 bits."""
    expected, found = both("warp_affine", pictures([(20, 31), (33, 40)], 3), "HWC", matrix=matrix, fill_value=9.0)
    assert_rarely_apart(expected, found, part=0.02)


def test_pictures_without_pixels_give_the_fill_value():
    samples = pictures([(0, 5), (3, 0), (2, 2)], 3)
    expected, found = both("warp_affine", samples, "HWC", matrix=[1.0, 0.1, 0.0, 0.0, 1.0, 0.0], fill_value=9.0, size=[6.0, 11.0])
    assert_rarely_apart(expected, found)
    assert all((made == 9).all() for made in found[:2])


def test_turned_frames():
    clips = [np.stack([picture, picture[::-1], picture]) for picture in pictures([(20, 31), (33, 40)], 3)]
    assert_rarely_apart(*both("rotate", clips, "FHWC", angle=17.0, fill_value=1.0), part=0.05)


@pytest.mark.parametrize("channels", CHANNELS)
@pytest.mark.parametrize("dtype", ["uint8", *[pytest.param(dtype, marks=SLOW) for dtype in ("int16", "float32")]])
def test_normalize_in_turns(channels, dtype):
    """A thread computes four packs of 1024 elements apart: fewer elements than one turn, exactly one, and several."""
    shapes = [(1, 1), (3, 5), (32, 32), (64, 64), (65, 63), (127, 101)]
    for a, b in zip(*both("normalize", pictures(shapes, channels, dtype), "HWC", axes=[0, 1]), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [types.UINT8, types.FLOAT16])
def test_normalize_to_small_types(dtype):
    samples = pictures([(1, 1), (64, 64), (127, 101)], 3)
    assert_rarely_apart(*both("normalize", samples, "HWC", axes=[0, 1], dtype=dtype, scale=30.0, shift=100.0))
