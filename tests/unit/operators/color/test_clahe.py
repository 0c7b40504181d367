"""clahe: the histogram of each tile is equalized."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from helpers.images import picture
from helpers.pipelines import pipeline_of

from asyncdali import fn


def equalized(samples, layout="HWC", **arguments):
    arguments = {"tiles_x": 4, "tiles_y": 3, "clip_limit": 2.0, **arguments}

    def graph():
        return fn.clahe(fn.external_source(lambda: samples, layout=layout), **arguments)

    with pipeline_of(graph, batch_size=len(samples)) as pipeline:
        (output,) = pipeline.run()
        return [np.array(sample) for sample in output]


def model(plane, tiles_x, tiles_y, limit):
    """clahe in NumPy, for one plane whose extents are multiples of the tiles."""
    height, width = plane.shape[0] // tiles_y, plane.shape[1] // tiles_x
    tables = np.empty((tiles_y, tiles_x, 256))
    for y in range(tiles_y):
        for x in range(tiles_x):
            bins = np.bincount(plane[y * height : y * height + height, x * width : x * width + width].ravel(), minlength=256)
            most = max(int(limit * height * width / 256), 1)
            cut = int(np.maximum(bins - most, 0).sum())
            bins = np.minimum(bins, most) + cut // 256
            left = cut % 256
            if left:
                bins[np.arange(0, 256, max(256 // left, 1))[:left]] += 1
            tables[y, x] = np.clip(np.rint(np.cumsum(bins) * (255 / (height * width))), 0, 255)
    rows, columns = np.arange(plane.shape[0]) / height - 0.5, np.arange(plane.shape[1]) / width - 0.5
    top, left = np.floor(rows).astype(int), np.floor(columns).astype(int)
    total = np.zeros(plane.shape)
    for dy in (0, 1):
        for dx in (0, 1):
            weight = np.abs(1 - dy - (rows - top))[:, None] * np.abs(1 - dx - (columns - left))[None]
            table = tables[np.clip(top + dy, 0, tiles_y - 1)[:, None], np.clip(left + dx, 0, tiles_x - 1)[None]]
            total += weight * np.take_along_axis(table, plane[..., None].astype(int), axis=2)[..., 0]
    return total


@pytest.mark.parametrize("limit", [1.5, 4.0])
def test_every_channel_is_equalized_separately(limit):
    images = [picture(36, 48, 3, seed) for seed in range(2)]
    for image, made in zip(images, equalized(images, luma_only=False, clip_limit=limit), strict=True):
        for channel in range(3):
            assert np.abs(made[..., channel] - model(image[..., channel], 4, 3, limit)).max() < 0.51
    (grey,) = equalized([images[0][..., :1]], clip_limit=limit)
    np.testing.assert_array_equal(grey, equalized(images[:1], luma_only=False, clip_limit=limit)[0][..., :1])


def through_opencv(image, tiles_x, tiles_y, limit, luma_only):
    tables = cv2.createCLAHE(limit, (tiles_x, tiles_y))
    if luma_only and image.shape[2] == 3:
        lab = cv2.cvtColor(image, cv2.COLOR_RGB2LAB)
        lab[..., 0] = tables.apply(np.ascontiguousarray(lab[..., 0]))
        return cv2.cvtColor(lab, cv2.COLOR_LAB2RGB)
    planes = [tables.apply(np.ascontiguousarray(image[..., channel])) for channel in range(image.shape[2])]
    return np.stack(planes, axis=2)


@pytest.mark.parametrize("channels, luma_only", [(3, True), (3, False), (1, True)])
def test_results_equal_opencvs(channels, luma_only):
    """Sizes are near multiples of the pixel blocks. Some tiles have one pixel, and some are outside of small images."""
    rng = np.random.default_rng(channels + luma_only)
    sizes = [(1, 1), (7, 3), (2, 300), (40, 256), (33, 257), (90, 70), (5, 600)]
    images = [
        rng.integers(0, 256, (height, width, channels), np.uint8) if k % 2 else picture(height, width, 3, k)[..., :channels].copy()
        for k, (height, width) in enumerate(sizes)
    ]
    for tiles_x, tiles_y, limit in ((8, 8, 2.0), (5, 11, 40.0), (1, 1, 0.3), (3, 2, -1.0)):
        made = equalized(images, tiles_x=tiles_x, tiles_y=tiles_y, clip_limit=limit, luma_only=luma_only)
        for image, got in zip(images, made, strict=True):
            np.testing.assert_array_equal(got, through_opencv(image, tiles_x, tiles_y, limit, luma_only))


def test_lightness_only_keeps_grey_pictures_grey():
    grey = picture(36, 48, 1, 3)
    image = np.repeat(grey[..., None], 3, axis=2)
    (made,) = equalized([image])
    assert (made.max(axis=2).astype(int) - made.min(axis=2)).max() <= 2
    assert made.std() > image.std()  # the contrast has grown
    assert (made != equalized([image], luma_only=False)[0]).any()


def test_small_and_empty_images():
    assert equalized([np.full((1, 1, 3), 9, np.uint8)], tiles_x=8)[0].shape == (1, 1, 3)
    assert equalized([np.zeros((0, 5, 3), np.uint8)])[0].shape == (0, 5, 3)


@pytest.mark.parametrize(
    "sample, layout, arguments, message", [
        (np.zeros((4, 5, 2), np.uint8), "HWC", {}, "1 or 3 channels"), (np.zeros((4, 5, 3), np.float32), "HWC", {}, "UINT8"),
        (np.zeros((3, 4, 5), np.uint8), "CHW", {}, "CHW"), (np.zeros((4, 5, 3), np.uint8), "HWC", {"tiles_x": 0}, "at least 1"),
        (np.zeros((4, 5, 3), np.uint8), "HWC", {"bins": 128}, "only 256"),
    ],
)  # fmt: skip
def test_refusals(sample, layout, arguments, message):
    with pytest.raises((RuntimeError, ValueError), match=message):
        equalized([sample], layout, **arguments)
