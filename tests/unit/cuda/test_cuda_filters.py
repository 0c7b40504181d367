"""Kernels of filters, compiled for the host, equal the compiled steps bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import kernels
from helpers.twins import assert_near, both

from asyncdali import types

pytestmark = pytest.mark.skipif(kernels.COMPILER is None, reason="no C++ compiler to build kernels for the host")
SLOW = pytest.mark.slow


def data(rng, dtype, *shapes):
    dtype = np.dtype(dtype)
    if dtype.kind == "f":
        return [rng.normal(0, 50, shape).astype(dtype) for shape in shapes]
    info = np.iinfo(dtype)
    return [rng.integers(info.min, info.max, shape, dtype, endpoint=True) for shape in shapes]


IMAGES = [(5, 1, 3), (40, 37, 3), (70, 9, 1), (1, 1, 2)]


@pytest.mark.parametrize("dtype", ["uint8", *[pytest.param(k, marks=SLOW) for k in ("int16", "float16", "uint64", "float32", "float64")]])
@pytest.mark.parametrize("out", [None, pytest.param(types.FLOAT, marks=SLOW)])
def test_gaussian_blur(dtype, out):
    rng = np.random.default_rng(1)
    sigmas = {"sigma": rng.uniform(0.3, 4, (4, 2)).astype(np.float32)}
    constants = {} if out is None else {"dtype": out}
    assert_near(*both("gaussian_blur", data(rng, dtype, *IMAGES), "HWC", sigmas, **constants))


@pytest.mark.parametrize(
    "channels, dtype, size",
    [
        (3, "uint8", [7, 5]), *[pytest.param(*case, marks=SLOW) for case in (
            (1, "uint8", [1, 31]), (2, "int8", [31, 1]), (4, "uint16", [23, 23]), (3, "float32", [23, 9]), (1, "float64", [3, 3]),
            (3, "uint8", [23, 23]),
        )],
    ],
)  # fmt: skip
def test_windows_of_one_size(channels, dtype, size):
    """Several tiles along both axes, rows at unaligned addresses, and pictures that are smaller than the window."""
    rng = np.random.default_rng(8)
    samples = data(rng, dtype, (67, 101, channels), (2, 3, channels), (65, 33, channels), (1, 200, channels))
    assert_near(*both("gaussian_blur", samples, "HWC", window_size=size))


@pytest.mark.parametrize("dtype", ["uint8", "int32"])
def test_windows_of_several_sizes_at_the_last_rows_and_columns(dtype):
    """The shared memory behind a tile is filled with NaN, which a weight of 0 must not multiply."""
    samples = data(np.random.default_rng(10), dtype, (9, 41, 3), (17, 33, 3))
    assert_near(*both("gaussian_blur", samples, "HWC", {"window_size": np.array([[9, 9], [7, 5]], np.int32)}))


def test_small_windows_of_half_floats():
    """Half floats become floats in shared memory, where rows are therefore twice as long."""
    samples = data(np.random.default_rng(11), "float16", (9, 41, 4), (17, 33, 4))
    assert_near(*both("gaussian_blur", samples, "HWC", window_size=9))


def test_infinities_beside_windows():
    """Elements outside a window have no effect, not even as infinity times 0. The windows have several sizes."""
    rng = np.random.default_rng(9)
    samples = data(rng, "float32", (20, 41, 1), (9, 50, 1))
    samples[0][10, 20], samples[1][3, 7] = np.inf, np.nan
    sizes = np.array([[3, 5], [9, 7]], np.int32)
    assert_near(*both("gaussian_blur", samples, "HWC", {"window_size": sizes}))


@pytest.mark.parametrize(
    "layout, window",
    [
        ("FHWC", [5, 201]), ("HW", [131, 3]), pytest.param("CHW", [33, 61], marks=SLOW), pytest.param("HW", [129, 3], marks=SLOW),
        pytest.param("FCHW", [301, 1], marks=SLOW),
    ],
)  # fmt: skip
def test_wide_windows_and_other_layouts(layout, window):
    rng = np.random.default_rng(2)
    shapes = {"CHW": [(3, 20, 70), (1, 35, 5)], "FHWC": [(2, 9, 8, 3), (1, 3, 50, 1)], "HW": [(40, 50), (3, 4)], "FCHW": [(2, 3, 9, 7)] * 2}
    assert_near(*both("gaussian_blur", data(rng, "uint8", *shapes[layout]), layout, window_size=window))


@pytest.mark.parametrize("layout", [pytest.param("DHWC", marks=SLOW), pytest.param("CDHW", marks=SLOW)])
def test_volumes(layout):
    rng = np.random.default_rng(3)
    samples = data(rng, "uint8", (5, 9, 8, 3), (3, 4, 6, 2))
    assert_near(*both("gaussian_blur", samples, layout, sigma=[1.0, 2.0, 0.5]))
    assert_near(*both("laplacian", samples, layout, dtype=types.FLOAT))


@pytest.mark.parametrize(
    "constants",
    [
        {"window_size": 5, "smoothing_size": 1, "normalized_kernel": True}, pytest.param({}, marks=SLOW),
        pytest.param({"scale": [0.5, 2.0]}, marks=SLOW),
    ],
)  # fmt: skip
def test_laplacian(constants):
    rng = np.random.default_rng(4)
    assert_near(*both("laplacian", data(rng, "uint8", *IMAGES), "HWC", **constants))


@pytest.mark.parametrize("border", ["reflect_101", "constant", *[pytest.param(k, marks=SLOW) for k in ("reflect_1001", "wrap", "clamp")]])
@pytest.mark.parametrize("mode", ["same", pytest.param("valid", marks=SLOW)])
def test_filter(border, mode):
    rng = np.random.default_rng(5)
    filters = [rng.normal(size=(3, 5)).astype(np.float32), rng.normal(size=(4, 2)).astype(np.float32)]
    more = (filters, data(rng, "uint8", (), ())) if border == "constant" else (filters,)
    samples = data(rng, "uint8", (7, 6, 3), (11, 5, 1))
    assert_near(*both("filter", samples, "HWC", more=more, border=border, mode=mode, anchor=[1, 1]))


@pytest.mark.parametrize(("shape", "channels", "mode", "dtype"), [
    ((5, 5), 3, "same", None), ((3, 1), 3, "same", types.FLOAT), ((1, 11), 3, "valid", None), ((2, 9), 1, "same", None),
    ((3, 20), 3, "same", None), ((4, 3), 4, "valid", types.FLOAT),
])  # fmt: skip
def test_filters_of_one_width(shape, channels, mode, dtype):
    """Loops over bytes are unrolled, up to a width. Odd sizes give every alignment; 20 taps of three bytes are too many."""
    rng = np.random.default_rng(7)
    samples = data(rng, "uint8", *[(9, width, channels) for width in (20, 21, 22, 23, 41, 203)])
    filters = [rng.normal(size=shape).astype(np.float32) / 4 for _ in samples]
    options = {} if dtype is None else {"dtype": dtype}
    for a, b in zip(*both("filter", samples, "HWC", more=(filters,), mode=mode, **options), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.slow
def test_filter_of_volumes():
    rng = np.random.default_rng(6)
    samples, filters = data(rng, "int16", (2, 4, 5, 6, 1), (1, 3, 7, 5, 2)), data(rng, "float32", (3, 2, 3), (1, 3, 2))
    for border in ("reflect_101", "wrap"):
        assert_near(*both("filter", samples, "FDHWC", more=(filters,), border=border, dtype=types.FLOAT))
