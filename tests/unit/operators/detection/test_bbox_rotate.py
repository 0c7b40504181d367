"""bbox_rotate: boxes that follow a rotated image."""

from __future__ import annotations

import re

import numpy as np
import pytest
from helpers.pipelines import pipeline_of
from helpers.tensor_parity import Failed, ours

from asyncdali import fn


def rotated(boxes, **arguments):
    result = ours("bbox_rotate", [[np.float32(boxes)]], **arguments)
    assert not isinstance(result, Failed), result
    return result.samples[0]


def test_boxes_rotated_by_a_right_angle():
    # Counter-clockwise: the right end goes to the top.
    boxes = [[0.75, 0.25, 1.0, 0.5]]
    np.testing.assert_allclose(rotated(boxes, angle=90.0, input_shape=[100, 200]), [[0.25, 0, 0.5, 0.25]], atol=1e-6)
    np.testing.assert_allclose(rotated(boxes, angle=180.0, input_shape=[100, 200]), [[0, 0.5, 0.25, 0.75]], atol=1e-6)
    pixels = rotated([[150, 25, 50, 25]], angle=90.0, input_shape=[200, 100], shape_layout="WH", bbox_layout="xyWH", bbox_normalized=False)
    np.testing.assert_allclose(pixels, [[25, 0, 25, 50]], atol=1e-4)


def test_the_box_around_holds_the_corners_and_modes_shrink_it():
    box = np.array([[60, 20, 80, 70.0]])
    options = {"angle": 30.0, "input_shape": [100, 100], "size": [200.0, 200.0], "bbox_normalized": False}
    angle = np.deg2rad(30)
    corners = np.array([[x, y] for x in (60, 80) for y in (20, 70)]) - 50
    moved = corners @ np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]) + 100
    np.testing.assert_allclose(rotated(box, **options)[0], [*moved.min(axis=0), *moved.max(axis=0)], rtol=1e-5)
    extents = {mode: np.diff(rotated(box, mode=mode, **options).reshape(2, 2), axis=0)[0] for mode in ("expand", "fixed", "halfway")}
    np.testing.assert_allclose(extents["fixed"], [20, 50], rtol=1e-5)
    np.testing.assert_allclose(extents["halfway"], (extents["expand"] + [20, 50]) / 2, rtol=1e-5)
    options["angle"] = 80.0  # turned by nearly a right angle
    np.testing.assert_allclose(np.diff(rotated(box, mode="fixed", **options).reshape(2, 2), axis=0)[0], [50, 20], rtol=1e-5)


def test_boxes_with_too_little_left_are_removed_with_their_labels():
    boxes = [np.float32([[-0.3, 0.2, 0.1, 0.6], [0.2, 0.2, 0.4, 0.4], [0.5, 0.5, 0.5, 0.9]]), np.zeros((0, 4), np.float32)]
    labels = [np.int32([[7], [8], [9]]), np.zeros((0, 1), np.int32)]

    def graph():
        sources = fn.external_source(lambda: boxes), fn.external_source(lambda: labels)
        options = {"angle": 0.0, "input_shape": [50, 40], "keep_size": True}
        return (*fn.bbox_rotate(*sources, remove_threshold=0.3, **options), *fn.bbox_rotate(*sources, remove_threshold=0.2, **options))

    with pipeline_of(graph, batch_size=2) as pipeline:
        few, few_labels, more, more_labels = ([np.asarray(sample) for sample in output] for output in pipeline.run())
    np.testing.assert_allclose(few[0], boxes[0][1:2], atol=1e-6)
    np.testing.assert_allclose(more[0], [[0, 0.2, 0.1, 0.6], boxes[0][1]], atol=1e-6)
    assert few_labels[0].tolist() == [[8]] and more_labels[0].tolist() == [[7], [8]]
    assert few[1].shape == (0, 4) and more_labels[1].shape == (0, 1)


@pytest.mark.parametrize(
    "arguments, message", [
        ({"angle": float("nan")}, "finite"), ({"input_shape": [0, 5]}, "positive"), ({"input_shape": [5]}, "fewer than"),
        ({"mode": "wide"}, "expand, fixed, halfway"), ({"bbox_layout": "XYxy"}, "xyWH, xyXY"), ({"remove_threshold": 1.0}, "below 1"),
        ({"shape_layout": "HH"}, "one H and one W"), ({"keep_size": True, "size": [4.0, 4.0]}, "exclude each other"),
        ({"size": [4.0]}, "two numbers"), ({"size": [0.5, 4.0]}, "at least 1"),
    ],
)  # fmt: skip
def test_refusals(arguments, message):
    result = ours("bbox_rotate", [[np.zeros((1, 4), np.float32)]], **{"angle": 3.0, "input_shape": [5, 5], **arguments})
    assert isinstance(result, Failed) and re.search(message, result.message), result
