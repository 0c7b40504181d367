"""dilate, erode and median_blur beside NumPy and OpenCV, and their kernels beside the compiled steps."""

from __future__ import annotations

import itertools

import cv2
import numpy as np
import pytest
from helpers import kernels
from helpers.marks import slow
from helpers.operators import run
from helpers.pipelines import pipeline_of
from helpers.twins import assert_near, both

from asyncdali import fn, types
from asyncdali.errors import SampleError

BORDERS = {
    "constant": cv2.BORDER_CONSTANT, "replicate": cv2.BORDER_REPLICATE, "reflect": cv2.BORDER_REFLECT,
    "reflect_101": cv2.BORDER_REFLECT_101, "wrap": cv2.BORDER_WRAP,
}  # fmt: skip
MODES = {"constant": "constant", "replicate": "edge", "reflect": "symmetric", "reflect_101": "reflect", "wrap": "wrap"}
DTYPES = ["uint8", "uint16", "float32"]


def picture(rng, dtype, *shape):
    if dtype == "float32":
        return rng.normal(0, 100, shape).astype(np.float32)
    return rng.integers(0, np.iinfo(dtype).max, shape, dtype, endpoint=True)


def windows_of(image, size, anchor, mode, neutral=None):
    """The window of each pixel of an HWC image, as [H, W, C, elements]. Size and anchor are (x, y)."""
    (w, h), (ax, ay) = size, anchor
    width = ((ay, h - 1 - ay), (ax, w - 1 - ax), (0, 0))
    padded = np.pad(image, width, mode, constant_values=neutral) if mode == "constant" else np.pad(image, width, mode)
    views = np.lib.stride_tricks.sliding_window_view(padded, (h, w), axis=(0, 1))
    return views.reshape(*image.shape, h * w)


def model(image, greatest, size, anchor, border, iterations=1):
    kind = image.dtype
    if kind.kind == "f":
        neutral = -np.inf if greatest else np.inf
    else:
        neutral = np.iinfo(kind).min if greatest else np.iinfo(kind).max
    anchor = [n // 2 if a < 0 else a for a, n in zip(anchor, size, strict=True)]
    for _ in range(iterations):
        windows = windows_of(image, size, anchor, MODES[border], neutral)
        image = windows.max(-1) if greatest else windows.min(-1)
    return image


MASKS = list(itertools.product(("dilate", "erode"), BORDERS, DTYPES))
"""Names, borders and types. Each is a kernel. Every other one runs by default: together they contain each pair of two of these."""


@pytest.mark.parametrize("name, border, dtype, batches", [*((*case, 2) for case in MASKS[::2]), *slow(*((*case, 8) for case in MASKS))])
def test_random_masks(name, border, dtype, batches):
    rng = np.random.default_rng(len(border))
    for _ in range(batches):
        images = [picture(rng, dtype, *rng.integers(1, 30, 2), int(rng.choice([1, 3, 4]))) for _ in range(3)]
        sizes = rng.integers(1, 8, (3, 2)).astype(np.int32)
        anchors = (rng.integers(0, 100, (3, 2)) % sizes).astype(np.int32)
        anchors[rng.random((3, 2)) < 0.3] = -1
        turns = int(rng.integers(1, 4))
        per_sample = {"mask_size": sizes, "anchor": anchors}
        found = run(f"experimental.{name}", images, "HWC", per_sample, border_mode=border, iterations=turns)
        for image, out, size, anchor in zip(images, found, sizes.tolist(), anchors.tolist(), strict=True):
            np.testing.assert_array_equal(out, model(image, name == "dilate", size, anchor, border, turns))


@pytest.mark.parametrize("border", ["constant", "replicate", "reflect", "reflect_101"])
def test_results_equal_opencvs(border):
    rng = np.random.default_rng(3)
    image = picture(rng, "uint8", 40, 51, 3)
    mask = np.ones((5, 4), np.uint8)
    for name in ("dilate", "erode"):
        (found,) = run(f"experimental.{name}", [image], "HWC", mask_size=[4, 5], border_mode=border)
        np.testing.assert_array_equal(found, getattr(cv2, name)(image, mask, borderType=BORDERS[border]))


@pytest.mark.parametrize("layout, axes", [("HW", None), ("CHW", (2, 0, 1)), ("HWC", (0, 1, 2))])
def test_layouts(layout, axes):
    image = picture(np.random.default_rng(4), "uint8", 12, 17, 3)
    source = image[..., 0] if axes is None else image.transpose(axes)
    expected = model(image, True, (5, 3), (-1, -1), "reflect")
    expected = expected[..., 0] if axes is None else expected.transpose(axes)
    (found,) = run("experimental.dilate", [source], layout, mask_size=[5, 3], border_mode="reflect")
    np.testing.assert_array_equal(found, expected)
    (found,) = run("experimental.dilate", [np.stack([source, source[::-1].copy()])], "F" + layout, mask_size=[5, 3], border_mode="reflect")
    np.testing.assert_array_equal(found[0], expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_median_blur(dtype):
    rng = np.random.default_rng(5)
    for _ in range(8):
        images = [picture(rng, dtype, *rng.integers(1, 30, 2), int(rng.integers(1, 5))) for _ in range(3)]
        sizes = rng.integers(1, 8, (3, 2)).astype(np.int32)
        found = run("experimental.median_blur", images, "HWC", {"window_size": sizes})
        for image, out, (w, h) in zip(images, found, sizes.tolist(), strict=True):
            windows = np.sort(windows_of(image, (w, h), (w // 2, h // 2), "edge"), axis=-1)
            np.testing.assert_array_equal(out, windows[..., w * h // 2])


@pytest.mark.parametrize("dtype, size", [("uint8", 3), ("uint8", 9), ("uint16", 5), ("float32", 5)])
def test_median_blur_equals_opencvs(dtype, size):
    image = picture(np.random.default_rng(6), dtype, 33, 40, 3)
    (found,) = run("experimental.median_blur", [image], "HWC", window_size=size)
    np.testing.assert_array_equal(found, cv2.medianBlur(image, size))


def test_median_of_large_windows():
    image = picture(np.random.default_rng(6), "uint8", 30, 31, 1)
    windows = np.sort(windows_of(image, (61, 43), (30, 21), "edge"), axis=-1)
    np.testing.assert_array_equal(run("experimental.median_blur", [image], "HWC", window_size=[61, 43])[0], windows[..., 61 * 43 // 2])


def test_arguments_per_frame():
    frames = picture(np.random.default_rng(7), "uint8", 3, 9, 11, 3)
    sizes = np.array([[3, 1], [1, 4], [5, 5]], np.int32)

    def graph():
        data = fn.external_source(lambda: [frames], layout="FHWC")
        per_frame = fn.per_frame(types.Constant(sizes))
        return (
            fn.experimental.dilate(data, mask_size=per_frame), fn.experimental.median_blur(data, window_size=per_frame),
            fn.experimental.erode(data.gpu(), mask_size=per_frame).cpu(),
        )  # fmt: skip

    with pipeline_of(graph, batch_size=1, device_id=0) as pipeline:
        dilated, blurred, eroded = (np.asarray(output.at(0)) for output in pipeline.run())
    for k, (w, h) in enumerate(sizes.tolist()):
        np.testing.assert_array_equal(dilated[k], model(frames[k], True, (w, h), (-1, -1), "constant"))
        np.testing.assert_array_equal(eroded[k], model(frames[k], False, (w, h), (-1, -1), "constant"))
        windows = np.sort(windows_of(frames[k], (w, h), (w // 2, h // 2), "edge"), axis=-1)
        np.testing.assert_array_equal(blurred[k], windows[..., w * h // 2])


@pytest.mark.parametrize(
    "name, arguments, text",
    [
        ("dilate", {"border_mode": "reflect_1001"}, "supported are constant, replicate, reflect, reflect_101, wrap"),
        ("erode", {"iterations": 0}, "`iterations` must be at least 1, got 0"),
        ("erode", {"mask_size": [0, 3]}, "`mask_size` must be 1 to 32768"),
        ("dilate", {"anchor": [3, 0]}, r"`anchor` must lie within the mask, got \[3, 0\]"),
        ("median_blur", {"window_size": [300, 300]}, "more than 65535 pixels"),
    ],
)
def test_wrong_arguments(name, arguments, text):
    with pytest.raises((ValueError, SampleError), match=text):
        run(f"experimental.{name}", [np.zeros((5, 5, 3), np.uint8)], "HWC", **arguments)


def test_wrong_inputs():
    for image, layout, text in (
        (np.zeros((5, 5, 3), np.int32), "HWC", "INT32 .*supported types are: UINT8, UINT16, FLOAT"),
        (np.zeros((5, 5, 5), np.uint8), "HWC", "at most 4 channels, got 5"),
        (np.zeros((5, 5, 5, 1), np.uint8), "DHWC", "does not match any of the allowed layouts"),
    ):
        with pytest.raises((ValueError, SampleError), match=text):
            run("experimental.dilate", [image], layout)


@pytest.mark.skipif(kernels.COMPILER is None, reason="no C++ compiler to build kernels for the host")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["dilate", "erode", "median_blur"])
def test_kernels(name, dtype):
    rng = np.random.default_rng(8)
    images = [picture(rng, dtype, *rng.integers(1, 40, 2), 3) for _ in range(4)]
    sizes = rng.integers(1, 9, (4, 2)).astype(np.int32)
    if name == "median_blur":
        assert_near(*both("experimental.median_blur", images, "HWC", {"window_size": sizes}))
        return
    for border in BORDERS:
        assert_near(*both(f"experimental.{name}", images, "HWC", {"mask_size": sizes}, border_mode=border, iterations=2))
