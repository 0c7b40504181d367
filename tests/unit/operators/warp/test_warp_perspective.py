"""experimental.warp_perspective: images through a perspective transform."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from helpers.images import picture
from helpers.pipelines import pipeline_of

from asyncdali import fn, types

MATRIX = np.float32([[1.1, 0.2, -3], [-0.1, 0.9, 4], [0.002, -0.001, 1]])


def warped(samples, matrix=MATRIX, layout="HWC", **arguments):
    def graph():
        source = fn.external_source(lambda: samples, layout=layout)
        return fn.experimental.warp_perspective(source, matrix=np.ravel(matrix).tolist(), **arguments)

    with pipeline_of(graph, batch_size=len(samples)) as pipeline:
        (output,) = pipeline.run()
        return [np.array(sample) for sample in output]


def nearest(image, matrix, size, fill, corner):
    """The model with nearest pixels, and the distance of each position from the border between two pixels."""
    shift = 0.5 if corner else 0.0
    y, x = np.mgrid[0 : size[0], 0 : size[1]] + shift
    u, v, w = np.tensordot(np.float64(matrix), np.stack([x, y, np.ones_like(x)]), 1)
    u, v = u / w - shift + 0.5, v / w - shift + 0.5
    column, row = np.floor(u).astype(int), np.floor(v).astype(int)
    inside = (column >= 0) & (column < image.shape[1]) & (row >= 0) & (row < image.shape[0])
    found = image[np.clip(row, 0, image.shape[0] - 1), np.clip(column, 0, image.shape[1] - 1)]
    distance = np.minimum(np.abs(u - np.round(u)), np.abs(v - np.round(v)))
    return np.where(inside[..., None], found, fill), distance


@pytest.mark.parametrize("origin", ["corner", "center"])
def test_pixels_come_from_the_positions_of_the_formula(origin):
    images = [picture(30, 40, 3, 1), picture(21, 17, 3, 2)]
    options = {"interp_type": types.INTERP_NN, "pixel_origin": origin, "fill_value": [1.0, 2.0, 3.0]}
    for size in (None, [25.4, 33.0]):
        made = warped(images, **options, **({} if size is None else {"size": size}))
        for image, result in zip(images, made, strict=True):
            wanted, distance = nearest(image, MATRIX, image.shape[:2] if size is None else (25, 33), [1, 2, 3], origin == "corner")
            assert result.shape == wanted.shape and result.dtype == np.uint8
            assert (result == wanted).all(axis=2)[distance > 0.05].all()
            assert (distance > 0.05).mean() > 0.7


def test_the_inverse_restores_the_image():
    image = np.stack([np.linspace(0, 1, 40)[None] * np.linspace(1, 2, 40)[:, None]] * 3, axis=2).astype(np.float32)
    there = warped([image], inverse_map=False, border_mode="replicate")
    back = warped(there, border_mode="replicate")
    assert np.abs(back[0] - image)[8:-8, 8:-8].max() < 0.02


@pytest.mark.parametrize("layout", ["HW", "CHW", "FHWC", "FCHW"])
def test_all_layouts_give_the_results_of_hwc(layout):
    images = [picture(30, 40, 3, k) for k in range(2)]
    wanted = warped(images, fill_value=7.0)
    order = {"HW": lambda x: x[..., 0], "CHW": lambda x: x.transpose(2, 0, 1)}.get(layout.removeprefix("F"), lambda x: x)
    clip = (lambda x: np.stack([x, x])) if layout[0] == "F" else lambda x: x
    made = warped([np.ascontiguousarray(clip(order(image))) for image in images], layout=layout, fill_value=7.0)
    for result, expected in zip(made, wanted, strict=True):
        np.testing.assert_array_equal(result, clip(order(expected)))


def test_transforms_as_input_and_for_each_frame():
    image, shift = picture(20, 30, 1, 1), np.float32([[1, 0, 3], [0, 1, 0], [0, 0, 1]])

    def graph():
        source = fn.external_source(lambda: [image] * 2, layout="HW")
        matrices = fn.external_source(lambda: [np.stack([np.eye(3, dtype=np.float32), shift])] * 2)
        return fn.experimental.warp_perspective(source, fn.per_frame(matrices)), fn.experimental.warp_perspective(source, np.array(shift))

    with pipeline_of(graph, batch_size=2) as pipeline:
        frames, shifted = pipeline.run()
    assert frames.layout() == "FHW"
    np.testing.assert_array_equal(np.asarray(frames[1])[0], image)
    for moved in (np.asarray(frames[1])[1], np.asarray(shifted[0])):
        np.testing.assert_array_equal(moved, np.pad(image[:, 3:], [(0, 0), (0, 3)]))


@pytest.mark.parametrize(
    "sample, layout, arguments, message", [
        (np.zeros((4, 5, 5), np.uint8), "HWC", {}, "1 to 4 channels"),
        (np.zeros((4, 5, 3), np.int32), "HWC", {}, "Unsupported input type INT32"),
        (np.zeros((2, 4, 5, 3), np.uint8), "DHWC", {}, "DHWC"), (np.zeros((4, 5, 3), np.uint8), "HWC", {"matrix": [1.0] * 8}, "9 numbers"),
        (np.zeros((4, 5, 3), np.uint8), "HWC", {"border_mode": "mirror"}, "reflect_101"),
        (np.zeros((4, 5, 3), np.uint8), "HWC", {"pixel_origin": "top"}, "corner, center"),
        (np.zeros((4, 5, 3), np.uint8), "HWC", {"interp_type": types.INTERP_LANCZOS3}, "cubic"),
        (np.zeros((4, 5, 3), np.uint8), "HWC", {"fill_value": [1.0, 2.0]}, "there are 3 channels"),
        (np.zeros((3, 4, 5), np.uint8), "CHW", {"fill_value": [1.0, 2.0, 3.0]}, "take one"),
        (np.zeros((4, 5, 3), np.uint8), "HWC", {"size": [0.0, 4.0]}, "must be positive"),
        (np.zeros((0, 5, 3), np.uint8), "HWC", {"size": [3.0, 4.0]}, "without pixels"),
    ],
)  # fmt: skip
def test_refusals(sample, layout, arguments, message):
    with pytest.raises((RuntimeError, ValueError), match=message):
        warped([sample], **{"matrix": MATRIX, "layout": layout, **arguments})


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("border", ["constant", "replicate", "reflect", "reflect_101", "wrap"])
def test_linear_interpolation_of_bytes_equals_opencvs(channels, border):
    """Sizes start at one pixel. Positions are inside, at the border and far outside. OpenCV's rounding depends on the processor."""
    rng = np.random.default_rng(channels)
    sizes = [(1, 1), (2, 9), (9, 2), (30, 17), (64, 300), (3, 40)]
    images = [rng.integers(0, 256, (*size, channels), np.uint8) for size in sizes]
    near = rng.normal(0, 1, (len(sizes), 3, 3)) * [[0.1, 0.1, 5], [0.1, 0.1, 5], [1e-3, 1e-3, 0]]
    matrices = list((np.eye(3) + near).astype(np.float32))

    def graph():
        given = fn.external_source(lambda: images, layout="HWC"), fn.external_source(lambda: matrices)
        return fn.experimental.warp_perspective(*given, pixel_origin="center", border_mode=border, fill_value=[7.4], size=[33.0, 290.0])

    with pipeline_of(graph, batch_size=len(sizes)) as pipeline:
        (output,) = pipeline.run()
        made = [np.array(sample) for sample in output]
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    differing = total = 0
    for image, matrix, got in zip(images, matrices, made, strict=True):
        source = image[..., 0] if channels == 1 else image
        mode = getattr(cv2, "BORDER_" + border.upper())
        wanted = cv2.warpPerspective(source, matrix.astype(float), (290, 33), flags=flags, borderMode=mode, borderValue=(7.4,) * 4)
        difference = np.abs(got.reshape(wanted.shape).astype(int) - wanted)
        assert difference.max() <= 1
        differing, total = differing + (difference > 0).sum(), total + difference.size
    assert differing <= 1e-3 * total


@pytest.mark.parametrize("shape", [(1, 5, 3), (5, 1, 1), (1, 1, 3)])
def test_cubic_interpolation_about_a_single_row_ends(shape):
    """OpenCV itself never returns if it reflects about the border pixels of an axis that has one."""
    image = np.random.default_rng(3).integers(0, 255, shape, np.uint8)
    matrix = [1.0, 0.1, -3.5, 0.1, 1.0, 2.25, 0.01, 0.02, 1.0]
    options = {"matrix": matrix, "interp_type": types.INTERP_CUBIC, "border_mode": "reflect_101", "size": [7.0, 6.0]}

    def graph():
        return fn.experimental.warp_perspective(fn.external_source(lambda: [image], layout="HWC"), **options)

    with pipeline_of(graph, batch_size=1) as pipeline:
        (output,) = pipeline.run()
        made = np.array(output[0])
    assert made.shape == (7, 6, shape[2])
    if shape[:2] == (1, 1):
        np.testing.assert_array_equal(made, np.broadcast_to(image, made.shape))
