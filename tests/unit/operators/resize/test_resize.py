"""resize beside a simple model: a separable filter whose weights are matrices."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import operators as harness

from asyncdali.errors import SampleError
from asyncdali.operators.resize.resize_rules import SizeRules, geometry
from asyncdali.types import DALIDataType, DALIInterpType


def triangle_weights(extent: int, out_extent: int, lo: float, hi: float, antialias: bool) -> np.ndarray:
    """Weights float64[out, in]: a triangle around the centre of each output. Weights of pixels outside are added to the border."""
    scale = (hi - lo) / out_extent
    widen = max(abs(scale), 1) if antialias else 1
    centers = lo + (np.arange(out_extent) + 0.5) * scale
    taps = np.arange(-extent - 4 * int(widen) - 4, 2 * extent + 4 * int(widen) + 4)
    weights = np.maximum(1 - np.abs(taps + 0.5 - centers[:, None]) / widen, 0)
    folded = np.zeros((out_extent, extent))
    for column, tap in enumerate(np.clip(taps, 0, extent - 1)):
        folded[:, tap] += weights[:, column]
    return folded / folded.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("antialias", [True, False])
def test_linear_is_a_triangle_filter(antialias, channels):
    rng = np.random.default_rng(channels)
    pictures = [rng.integers(0, 256, (h, w, channels)).astype(np.uint8) for h, w in rng.integers(1, 60, (12, 2))]
    sizes = rng.integers(1, 70, (12, 2)).astype(np.float32)
    ours = harness.run("resize", pictures, "HWC", {"size": sizes}, antialias=antialias, dtype=DALIDataType.FLOAT)
    for picture, size, result in zip(pictures, sizes.astype(int), ours):
        rows = triangle_weights(picture.shape[0], size[0], 0, picture.shape[0], antialias)
        columns = triangle_weights(picture.shape[1], size[1], 0, picture.shape[1], antialias)
        np.testing.assert_allclose(result, np.einsum("yh,xw,hwc->yxc", rows, columns, picture), atol=5e-3)


def test_a_region_is_filtered_with_pixels_around_it():
    picture = np.random.default_rng(0).integers(0, 256, (40, 50, 3)).astype(np.uint8)
    ours = harness.run("resize", [picture], "HWC", size=[10.0, 12.0], roi_start=[5.0, 6.0], roi_end=[35.0, 42.0], dtype=DALIDataType.FLOAT)
    rows, columns = triangle_weights(40, 10, 5, 35, True), triangle_weights(50, 12, 6, 42, True)
    np.testing.assert_allclose(ours[0], np.einsum("yh,xw,hwc->yxc", rows, columns, picture), atol=5e-3)


@pytest.mark.parametrize("kind", [kind for kind in DALIInterpType if kind != DALIInterpType.INTERP_GAUSSIAN])  # a Gaussian blurs
@pytest.mark.parametrize("dtype", ["uint8", "float32", *(pytest.param(k, marks=pytest.mark.slow) for k in ("int16", "uint16"))])
def test_the_same_size_changes_nothing_and_a_negative_size_flips(dtype, kind):
    picture = np.random.default_rng(0).integers(0, 256, (9, 11, 3)).astype(dtype)
    same, flipped = harness.run("resize", [picture] * 2, "HWC", {"size": np.array([[9, 11], [9, -11]], np.float32)}, interp_type=kind)
    np.testing.assert_allclose(same, picture, atol=1e-9)
    np.testing.assert_allclose(flipped, picture[:, ::-1], atol=1e-9)


def test_cubic_saturates_and_rounds_half_to_even():
    step = np.repeat(np.array([[0, 255]], np.uint8), 4, axis=1)[..., None]
    out = harness.run("resize", [step], "HWC", size=[1.0, 30.0], interp_type=DALIInterpType.INTERP_CUBIC)[0].ravel()
    assert out.min() == 0 and out.max() == 255 and (np.diff(out.astype(int)) >= 0).all()
    halves = np.stack([np.zeros(8), np.arange(8)]).astype(np.uint8)[..., None]
    np.testing.assert_array_equal(harness.run("resize", [halves], "HWC", size=[1.0, 8.0])[0].ravel(), np.rint(np.arange(8) / 2))


@pytest.mark.parametrize("layout, axes", [("FCHW", 2), ("CDHW", 3)])
def test_planes_equal_interleaved(layout, axes):
    rng = np.random.default_rng(axes)
    sample = rng.integers(0, 256, (2, 7, 8, 9)).astype(np.uint8)
    size = np.array([[5, 6, 7][-axes:]], np.float32)
    planar = harness.run("resize", [sample], layout, {"size": size})[0]
    moved = np.ascontiguousarray(np.moveaxis(sample, layout.index("C"), -1))
    interleaved = harness.run("resize", [moved], layout.replace("C", "") + "C", {"size": size})[0]
    np.testing.assert_array_equal(np.moveaxis(planar, layout.index("C"), -1), interleaved)


def test_saved_extents_and_empty_samples():
    empty, picture = np.zeros((0, 10, 3), np.uint8), np.zeros((4, 6, 3), np.uint8)
    out, extents = harness.run_all("resize", [empty, picture], "HWC", size=[5.0, 5.0], save_attrs=True)
    assert [a.shape for a in out] == [(0, 5, 3), (5, 5, 3)]
    assert [a.tolist() for a in extents] == [[0, 10], [4, 6]] and extents[0].dtype == np.int32


@pytest.mark.parametrize(
    "mode, size, limit, expected", [
        ("default", (0, 60), None, (40, 60)), ("stretch", (0, 60), None, (100, 60)), ("not_larger", (80, 60), None, (40, 60)),
        ("not_smaller", (80, 60), None, (80, 120)), ("not_smaller", (80, 60), 90, (60, 90)), ("default", (0, 0), 10, (100, 150)),
        ("default", (0.2, 0.4), None, (1, 1)), ("default", (10.5, 11.5), None, (11, 12)), ("stretch", (500, 0), 300, (300, 150)),
    ],
)  # fmt: skip
def test_extents(mode, size, limit, expected):
    limits = None if limit is None else np.full(2, limit, np.float32)
    result = geometry(np.array([[100, 150]]), np.array([size], np.float32), SizeRules(mode, limits))
    assert tuple(result.extents[0]) == expected


def test_subpixel_scale_keeps_the_scale():
    size = np.array([[10.4, 20.0]], np.float32)
    kept = geometry(np.array([[52, 100]]), size)
    np.testing.assert_allclose((kept.hi - kept.lo)[0] / kept.extents[0], [5, 5], rtol=1e-6)
    whole = geometry(np.array([[52, 100]]), size, SizeRules(subpixel_scale=False))
    np.testing.assert_allclose((whole.lo[0], whole.hi[0]), ([0, 0], [52, 100]))


@pytest.mark.parametrize(
    "constants, text", [
        ({}, "Exactly one method"), ({"size": [1.0], "resize_x": 2.0}, "Exactly one method"), ({"size": [1.0], "mode": "odd"}, "odd"),
        ({"resize_longer": 5.0, "mode": "stretch"}, "mutually exclusive"), ({"size": [1.0], "roi_end": [1.0]}, "roi_start"),
        ({"size": [1.0, 2.0, 3.0]}, "size"), ({"size": [float("nan")]}, "must be finite numbers"),
        ({"size": [1.0], "max_size": [1.0] * 3}, "max_size"),
        ({"size": [1.0], "dtype": DALIDataType.INT16}, "FLOAT"),
    ],
)  # fmt: skip
def test_refusals(constants, text):
    with pytest.raises((ValueError, SampleError), match=text):
        harness.run("resize", [np.zeros((4, 5, 3), np.uint8)], "HWC", **constants)


def test_wrong_inputs():
    with pytest.raises(ValueError, match="INT8"):
        harness.run("resize", [np.zeros((4, 5, 3), np.int8)], "HWC", size=[2.0])
    with pytest.raises(ValueError, match=r'"HW".*HWC, FHWC'):
        harness.run("resize", [np.zeros((4, 5), np.uint8)], "HW", size=[2.0])


def test_nearest_pixels_of_a_region_that_leaves_the_image():
    """On all sides, pixels outside of the image equal the nearest pixel of the image."""
    image = np.arange(12, dtype=np.uint8).reshape(3, 4, 1)
    region = {"roi_start": [-1.0, -2.0], "roi_end": [4.0, 6.0]}
    (found,) = harness.run("resize", [image], "HWC", size=[5.0, 8.0], **region, interp_type=DALIInterpType.INTERP_NN)
    rows, columns = np.arange(-1, 4).clip(0, 2), np.arange(-2, 6).clip(0, 3)
    np.testing.assert_array_equal(found, image[rows][:, columns])
