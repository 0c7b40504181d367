"""Kernels of reductions and normalize, compiled for the host, beside the compiled steps: integers and extremes are equal; sums of floats
differ at most by the CPU's rounding, because kernels add in float64."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import kernels
from helpers.twins import assert_near, both

from asyncdali import types

pytestmark = pytest.mark.skipif(kernels.COMPILER is None, reason="no C++ compiler to build kernels for the host")
SLOW = pytest.mark.slow
BOUND = 4e-6
"""Relative to the sum of magnitudes: some 32 additions in float32, one after the other."""
AXES = [[None, [0, 1]], pytest.param([[0], [1], [2], [0, 2], [-1, 1], []], marks=SLOW)]


def data(rng, dtype, shapes):
    dtype = np.dtype(dtype)
    if dtype.kind == "f":
        return [rng.uniform(0, 10, shape).astype(dtype) for shape in shapes]
    info = np.iinfo(dtype)
    return [rng.integers(info.min, info.max, shape, dtype, endpoint=True) for shape in shapes]


SMALL = [(5, 7, 3), (1, 4, 6), (9, 2, 2)]
LARGE = [(70, 90, 3), (101, 70, 1), (3, 1200, 2)]  # longer than a block, and longer than a part


def options(axes):
    return {} if axes is None else {"axes": axes}


@pytest.mark.parametrize("several", AXES)
@pytest.mark.parametrize("dtype", ["uint8", *[pytest.param(k, marks=SLOW) for k in ("int8", "uint16", "int32", "uint64", "int64")]])
@pytest.mark.parametrize("name", ["sum", *[pytest.param(k, marks=SLOW) for k in ("mean", "mean_square", "rms")]])
def test_integers(name, dtype, several):
    rng = np.random.default_rng(1)
    for shapes in (SMALL, LARGE):
        for axes in several:
            kind = getattr(types, dtype.upper())
            assert_near(*both(f"reductions.{name}", data(rng, dtype, shapes), dtype=kind, **options(axes)))


@pytest.mark.parametrize("several", AXES)
@pytest.mark.parametrize("dtype", ["float32", *[pytest.param(k, marks=SLOW) for k in ("uint8", "int16", "uint64")]])
@pytest.mark.parametrize("name", ["mean", *[pytest.param(k, marks=SLOW) for k in ("sum", "mean_square", "rms")]])
def test_floats(name, dtype, several):
    rng = np.random.default_rng(2)
    for shapes in (SMALL, LARGE):
        for axes in several:
            made = data(rng, dtype, shapes)
            magnitudes = np.abs(made[0].astype(np.float64)).max()
            expected, found = both(f"reductions.{name}", made, dtype=types.FLOAT, **options(axes), keep_dims=True)
            for a, b in zip(expected, found, strict=True):
                assert a.shape == b.shape
                np.testing.assert_allclose(b, a, rtol=BOUND, atol=BOUND * magnitudes if dtype == "int16" else 0)


@pytest.mark.parametrize("several", AXES)
@pytest.mark.parametrize("dtype", ["float32", *[pytest.param(k, marks=SLOW) for k in ("uint8", "int64", "uint16")]])
@pytest.mark.parametrize("name", ["max", pytest.param("min", marks=SLOW)])
def test_extremes(name, dtype, several):
    rng = np.random.default_rng(3)
    for shapes in (SMALL, LARGE, [(0, 3, 2), (4, 0, 5)]):
        for axes in several:
            made = data(rng, dtype, shapes)
            if dtype == "float32":
                for sample in made:
                    sample[rng.random(sample.shape) < 0.1] = np.nan
                    sample[rng.random(sample.shape) < 0.01] = np.inf
            expected, found = both(f"reductions.{name}", made, **options(axes))
            for a, b in zip(expected, found, strict=True):
                np.testing.assert_array_equal(b, a)


@pytest.mark.parametrize("several", AXES)
@pytest.mark.parametrize("dtype", ["uint8", pytest.param("float32", marks=SLOW)])
@pytest.mark.parametrize("name", ["std_dev", pytest.param("variance", marks=SLOW)])
def test_deviations(name, dtype, several):
    rng = np.random.default_rng(4)
    for shapes in (SMALL, LARGE):
        for axes in several:
            made = data(rng, dtype, shapes)
            kept = [axis for axis in range(3) if axes is not None and axis not in [k % 3 for k in axes]]
            means = [np.full([sample.shape[axis] for axis in kept], 5.0, np.float32) for sample in made]
            for ddof in (0, 1):
                expected, found = both(f"reductions.{name}", made, more=(means,), **options(axes), ddof=ddof)
                for a, b in zip(expected, found, strict=True):
                    np.testing.assert_allclose(b, a, rtol=BOUND)


@pytest.mark.parametrize("channels", [2, 3, 4])
@pytest.mark.parametrize("dtype", ["uint8", "float32", *[pytest.param(k, marks=SLOW) for k in ("int16", "int64")]])
def test_pixels_over_their_channels(dtype, channels):
    """Numbers of pixels that are no multiples of a pack, so that samples begin between packs, and pixels of one sample end within one."""
    rng = np.random.default_rng(8)
    made = data(rng, dtype, [(5, 7, channels), (1, 1, channels), (3, 3, channels), (70, 91, channels), (1, 3, channels)])
    more = [rng.uniform(0, 10, sample.shape[:2]).astype(np.float32) for sample in made]
    for name in ("sum", "mean", "mean_square", "rms", "max", "min"):
        assert_near(*both(f"reductions.{name}", made, axes=[2]), relative=BOUND)
    assert_near(*both("reductions.variance", made, more=(more,), axes=[2]), relative=BOUND)
    assert_near(*both("reductions.variance", made, more=([np.float32(5)] * len(made),), axes=[2], ddof=1), relative=BOUND)


@pytest.mark.parametrize("mean", [200.0, 199.99998, 200.00002, 0.49999997, 5000.0, -90000.0])
def test_distances_of_bytes_are_never_negative(mean):
    """Bytes are summed as integers around the nearest integer of the mean; far means element by element."""
    for channels in (1, 3):
        made = [np.full((64, 64, channels), 200, np.uint8), np.random.default_rng(7).integers(0, 256, (90, 41, channels)).astype(np.uint8)]
        means = [np.full(channels, mean, np.float32)] * 2
        expected, found = both("reductions.variance", made, more=(means,), axes=[0, 1])
        for a, b in zip(expected, found, strict=True):
            np.testing.assert_allclose(b, a, rtol=BOUND)
            assert (b >= 0).all()


NORMALIZE = [
    {}, {"axes": [0, 1]}, {"axes": [1], "epsilon": 0.5, "ddof": 1}, {"axes": [0, 2], "scale": 50.0, "shift": 100.0}, {"mean": 4.0},
    {"stddev": 2.0, "axes": [0, 1]}, {"mean": 4.0, "stddev": 2.0}, {"batch": True}, {"batch": True, "axes": [0, 1], "ddof": 2},
    {"batch": True, "axes": [0, 1], "mean": 3.0}, {"batch": True, "axes": [0, 1], "stddev": 3.0},
]  # fmt: skip


@pytest.mark.parametrize("constants", [each if k == 8 else pytest.param(each, marks=SLOW) for k, each in enumerate(NORMALIZE)])
@pytest.mark.parametrize("dtype", ["uint8", pytest.param("float32", marks=SLOW)])
def test_normalize(constants, dtype):
    rng = np.random.default_rng(5)
    for shapes in (SMALL, LARGE):
        made = data(rng, dtype, [(*shape[:2], 3) for shape in shapes] if constants.get("batch") else shapes)
        made[0][:] = 7  # has no deviation
        assert_near(*both("normalize", made, "HWC", **constants), relative=1e-5)


@pytest.mark.parametrize("out", [pytest.param(out, marks=SLOW) for out in (types.UINT8, types.FLOAT16)])
def test_normalize_to_other_types_with_tensors(out):
    rng = np.random.default_rng(6)
    made = data(rng, "uint8", [(8, 9, 3)] * 4)
    tensors = {name: rng.uniform(10, 60, (4, 1, 1, 3)).astype(np.float32) for name in ("mean", "stddev")}
    assert_near(*both("normalize", made, "HWC", tensors, dtype=out, scale=30.0, shift=128.0))
    del tensors["stddev"]
    assert_near(*both("normalize", made, "HWC", tensors, dtype=out, scale=30.0, shift=128.0), relative=1e-3, steps=1)
