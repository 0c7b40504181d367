"""tensor_resize for any axes, beside `resize` and beside matrices of weights."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import kernels
from helpers import operators as harness
from helpers.pipelines import pipeline_of
from helpers.twins import assert_near, both

from asyncdali import fn, types
from asyncdali.errors import SampleError

RNG = np.random.default_rng(0)
FIVE = RNG.random((3, 4, 5, 6, 2)).astype(np.float32)
LINE = np.arange(10, dtype=np.float32)


def run(samples, layout="", per_sample=None, **constants):
    return harness.run("tensor_resize", samples, layout, per_sample, **constants)


def matrix(extent, out):
    """Weights of a linear interpolation, float64[out, extent]: triangles that are as wide as a step."""
    scale = extent / out
    widen = max(scale, 1)
    taps = np.arange(-2 * extent, 3 * extent)
    weights = np.maximum(1 - abs(taps + 0.5 - (np.arange(out)[:, None] + 0.5) * scale) / widen, 0)
    folded = np.zeros((out, extent))
    for column, tap in enumerate(np.clip(taps, 0, extent - 1)):
        folded[:, tap] += weights[:, column]
    return folded / folded.sum(1, keepdims=True)


def resized(data, axes, sizes):
    for axis, size in zip(axes, sizes, strict=True):
        data = np.moveaxis(np.tensordot(matrix(data.shape[axis], size), data, (1, axis)), 0, axis)
    return data


@pytest.mark.parametrize("axes", [[0], [1], [4], [0, 1], [3, 4], [0, 4], [1, 3], [0, 3], [4, 2], [0, 1, 2], [2, 3, 4], [4, 3, 2], [-1, 0]])
def test_any_axes(axes):
    sizes = [2, 7, 3][: len(axes)]
    (found,) = run([FIVE], axes=axes, sizes=sizes)
    np.testing.assert_allclose(found, resized(FIVE, axes, sizes), atol=1e-6)


def test_unchanged_axes_are_merged():
    """Four or five axes are given, but three or none change. Unchanged last axes make wide elements."""
    np.testing.assert_allclose(run([FIVE], sizes=[3, 2, 7, 3, 2])[0], resized(FIVE, [1, 2, 3], [2, 7, 3]), atol=1e-6)
    np.testing.assert_allclose(run([FIVE], axes=[0, 1, 2, 3], sizes=[3, 2, 7, 3])[0], resized(FIVE, [1, 2, 3], [2, 7, 3]), atol=1e-6)
    np.testing.assert_array_equal(run([FIVE], sizes=[3, 4, 5, 6, 2])[0], FIVE)
    np.testing.assert_array_equal(run([FIVE], axes=[], sizes=[1])[0], FIVE)
    np.testing.assert_array_equal(run([FIVE], axes=[0, 4], scales=[1.0])[0], FIVE)


def test_too_many_axes():
    with pytest.raises(ValueError, match=r"at most 3 axes .* got axes \[0, 1, 2, 3\]"):
        run([FIVE], axes=[0, 1, 2, 3], sizes=[2, 2, 2, 2])
    with pytest.raises(ValueError, match=r"of which \[0, 2, 4\] change"):
        run([FIVE], axes=[0, 2, 4], sizes=[2, 2, 3])


def test_the_same_as_resize():
    pictures = [RNG.random((h, w, 3)).astype(np.float32) for h, w in ((20, 30), (9, 7))]
    sizes = np.float32([[11, 13], [-5, 20]])
    for kind in (types.INTERP_NN, types.INTERP_LINEAR, types.INTERP_LANCZOS3):
        ours = run(pictures, "HWC", {"sizes": sizes}, axes=[0, 1], interp_type=kind)
        theirs = harness.run("resize", pictures, "HWC", {"size": sizes}, interp_type=kind)
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(a, b)
    by_name = run(pictures, "HWC", {"sizes": sizes[:, ::-1].copy()}, axis_names="WH")
    np.testing.assert_array_equal(by_name[0], run(pictures, "HWC", {"sizes": sizes}, axes=[0, 1])[0])


def test_lengths():
    data = np.zeros((6, 8), np.float32)

    def shape(**constants):
        return run([data], **constants)[0].shape

    assert [shape(sizes=[2.5, 3.4], size_rounding=how) for how in ("round", "truncate", "ceil")] == [(3, 3), (2, 3), (3, 4)]
    assert [shape(scales=[0.45, 0.1], size_rounding=how) for how in ("round", "truncate", "ceil")] == [(3, 1), (2, 1), (3, 1)]
    assert [shape(sizes=[9, 0], mode=mode) for mode in ("default", "stretch", "not_larger", "not_smaller")] == [
        (9, 12),
        (9, 8),
        (9, 12),
        (9, 12),
    ]
    assert [shape(sizes=[9, 9], mode=mode) for mode in ("not_larger", "not_smaller")] == [(7, 9), (9, 12)]
    assert shape(sizes=[9, 20], max_size=[7, 10]) == (7, 10) and shape(scales=[0, 2]) == (12, 16) and shape(sizes=4) == (4, 4)


def test_alignment_keeps_the_begin_middle_or_end():
    """The length is rounded up by one. Begin, middle or end of the input stays in place."""
    scale = 10 / 4.6
    for alignment in (0.0, 0.25, 0.5, 1.0):
        (found,) = run([LINE], sizes=[4.6], alignment=[alignment], antialias=False)
        start = 10 * alignment - alignment * 5 * scale
        np.testing.assert_allclose(found, np.clip(start + (np.arange(5) + 0.5) * scale - 0.5, 0, 9), atol=1e-5)
        (flipped,) = run([LINE], sizes=[-4.6], alignment=[alignment], antialias=False)
        np.testing.assert_allclose(flipped, 9 - found, atol=1e-5)
    (found,) = run([LINE], sizes=[4.6], alignment=[0.0], antialias=False, subpixel_scale=False)
    np.testing.assert_allclose(found, np.arange(5) * 2 + 0.5, atol=1e-5)


def test_a_region_of_some_axes():
    (found,) = run([FIVE], axes=[3, 1], roi_start=[1, 3], roi_end=[5, 1], sizes=[4, 2])
    np.testing.assert_allclose(found, FIVE[:, 2:0:-1, :, 1:5], atol=1e-6)
    (found,) = run([FIVE], axes=[3], roi_start=[0.5], roi_end=[1.0], roi_relative=True, sizes=[3])
    np.testing.assert_allclose(found, FIVE[:, :, :, 3:], atol=1e-6)


def test_per_sample_and_empty():
    samples = [LINE, LINE[:4].copy(), LINE[:0].copy()]
    found = run(samples, per_sample={"sizes": np.float32([[5], [8], [3]])})
    assert [sample.shape for sample in found] == [(5,), (8,), (0,)]
    for sample, data, size in zip(found[:2], samples, (5, 8)):
        np.testing.assert_allclose(sample, matrix(len(data), size) @ data, atol=1e-5)


@pytest.mark.parametrize(
    "constants, message",
    [
        ({}, "one of `sizes` or `scales`"), ({"sizes": [2], "scales": [1]}, "not both"), ({"sizes": [1, 2, 3]}, "expects 2 values"),
        ({"sizes": [2], "axes": [2]}, "axis 2 is out of range"), ({"sizes": [2], "axes": [0, -2]}, "more than once"),
        ({"sizes": [2], "axis_names": "X"}, "'X'"), ({"sizes": [2], "axis_names": "H", "axes": [0]}, "exclusive"),
        ({"sizes": [2], "mode": "bigger"}, "Invalid resize mode"), ({"scales": [2], "mode": "not_larger"}, "not_larger"),
        ({"sizes": [2], "size_rounding": "floor"}, "size_rounding"), ({"sizes": [2], "dtype": types.INT32}, "original type or FLOAT"),
        ({"sizes": [2], "roi_start": [1, 1]}, "together"), ({"sizes": [2], "max_size": [1, 2, 3]}, "max_size"),
    ],
)  # fmt: skip
def test_wrong_arguments(constants, message):
    with pytest.raises(ValueError, match=message):
        run([np.zeros((6, 8), np.float32)], "HW", **constants)


def test_wrong_samples():
    with pytest.raises(SampleError, match="must be finite numbers"):
        run([LINE, LINE], per_sample={"sizes": np.float32([[3], [np.nan]])})
    with pytest.raises(ValueError, match="Unsupported input type FLOAT64"):
        run([LINE.astype(np.float64)], sizes=[3])


def test_in_a_pipeline_and_by_its_old_name():
    with pytest.warns(DeprecationWarning, match="tensor_resize"):
        pipeline = pipeline_of(
            lambda: (
                fn.tensor_resize(fn.external_source(lambda: [FIVE] * 3, layout="DHWCX", dtype=types.FLOAT), axis_names="HW", sizes=[3, 3]),
                fn.experimental.tensor_resize(fn.external_source(lambda: [FIVE] * 3, dtype=types.FLOAT).gpu(), axes=[1, 2], sizes=[3, 3]),
            )
        )
    with pipeline:
        first, second = pipeline.run()
        assert first.layout() == "DHWCX" and np.asarray(first[0]).shape == (3, 3, 3, 6, 2)
        np.testing.assert_array_equal(np.asarray(first[0]), np.asarray(second.as_cpu()[0]))


@pytest.mark.skipif(kernels.COMPILER is None, reason="no C++ compiler to build kernels for the host")
@pytest.mark.parametrize("axes", [[3], *[pytest.param(axes, marks=pytest.mark.slow) for axes in ([0], [1, 3], [1, 2, 3], [4])]])
def test_the_gpu_kernel(axes):
    """The kernel, compiled for the host, equals the compiled step."""
    data = [FIVE, FIVE[:2, :3].copy()]
    assert_near(*both("tensor_resize", data, "", axes=axes, sizes=[2.5, 7, 3][: len(axes)]), 1e-6)
