"""equalize: histograms become flat."""

from __future__ import annotations

import re

import numpy as np
import pytest
from helpers import operators as harness
from helpers.pipelines import pipeline_of
from helpers.tensor_parity import Failed, ours

from asyncdali import fn


def flat(plane):
    """equalize in NumPy: a value becomes 255 times the share of the other values that are not larger. The smallest value becomes 0."""
    ranks = np.array([(plane <= value).sum() for value in range(256)], float) - (plane == plane.min()).sum()
    others = plane.size - (plane == plane.min()).sum()
    return np.rint(ranks[plane] * 255 / others).astype(np.uint8) if others else plane


def pictures(layout):
    """Images of several sizes, numbers of channels and numbers of frames."""
    rng = np.random.default_rng(4)
    shapes = [[{"H": height, "W": width, "C": 3, "F": 2}[axis] for axis in layout] for height, width in ((9, 14), (1, 1), (20, 3))]
    return [np.clip(rng.normal(90, 12, shape), 0, 255).astype(np.uint8) for shape in shapes]


@pytest.mark.parametrize("layout", ["HW", "HWC", "CHW", "FHW", "FHWC", "FCHW"])
def test_every_plane_is_equalized_separately(layout):
    images = pictures(layout)
    axes = (layout.index("H"), layout.index("W"))
    for image, made in zip(images, harness.run("equalize", images, layout), strict=True):
        assert made.shape == image.shape and made.dtype == np.uint8
        planes, wanted = np.moveaxis(made, axes, (-2, -1)), np.moveaxis(image, axes, (-2, -1))
        for index in np.ndindex(planes.shape[:-2]):
            np.testing.assert_array_equal(planes[index], flat(wanted[index]))


def test_images_without_pixels_and_in_a_pipeline():
    assert harness.run("equalize", [np.zeros((0, 5, 3), np.uint8)], "HWC")[0].shape == (0, 5, 3)
    assert harness.run("equalize", [np.zeros((4, 5, 0), np.uint8)], "HWC")[0].shape == (4, 5, 0)
    (image, *_) = pictures("HWC")

    def graph():
        source = fn.external_source(lambda: [image] * 3, layout="HWC")
        return fn.equalize(source), fn.equalize(fn.cat(source))

    with pipeline_of(graph) as pipeline:
        once, behind = pipeline.run()
    np.testing.assert_array_equal(np.asarray(once[2]), np.asarray(behind[0]))
    np.testing.assert_array_equal(np.asarray(once[0])[..., 1], flat(image[..., 1]))


def test_the_deprecated_name():
    with pytest.warns(DeprecationWarning, match="experimental.equalize is deprecated"), pipeline_of(
        lambda: fn.experimental.equalize(fn.external_source(lambda: [np.uint8([[1, 2]])] * 3))
    ) as pipeline:  # fmt: skip
        assert np.asarray(pipeline.run()[0][0]).tolist() == [[0, 255]]


@pytest.mark.parametrize(
    "sample, layout, message", [
        (np.zeros((4, 5, 3), np.float32), "HWC", "UINT8"), (np.zeros((2, 4, 5, 3), np.uint8), "DHWC", "DHWC"),
        (np.zeros(5, np.uint8), "", "dimensions 1"),
    ],
)  # fmt: skip
def test_refusals(sample, layout, message):
    result = ours("equalize", [[sample]], [layout])
    assert isinstance(result, Failed) and re.search(message, result.message), result
