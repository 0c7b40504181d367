"""random_bbox_crop: windows are inside the image, boxes move with the window, and labels stay with their boxes."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.pipelines import pipeline_of

from asyncdali import fn

BOXES = np.array([[0.1, 0.1, 0.4, 0.5], [0.5, 0.5, 0.9, 0.8], [0.2, 0.6, 0.3, 0.7]], np.float32)


def crops(runs=20, labels=None, **constants):
    def graph():
        inputs = [fn.external_source(lambda: [BOXES] * 3)]
        if labels is not None:
            inputs.append(fn.external_source(lambda: [labels] * 3))
        return tuple(fn.random_bbox_crop(*inputs, **constants))

    with pipeline_of(graph) as pipeline:
        for _ in range(runs):
            outputs = pipeline.run()
            for i in range(3):
                yield [np.asarray(output[i]) for output in outputs]


def test_windows_lie_in_the_image_and_boxes_move_with_them():
    constants = {"scaling": [0.3, 0.8], "aspect_ratio": [0.5, 2.0], "allow_no_crop": False, "output_bbox_indices": True}
    for anchor, shape, boxes, labels, indices in crops(labels=np.array([7, 8, 9], np.int64), **constants):
        assert (anchor >= 0).all() and (anchor + shape <= 1 + 1e-6).all()
        assert shape.min() >= 0.3 - 1e-6 and shape.max() <= 0.8 and 0.5 <= shape[0] / shape[1] <= 2
        np.testing.assert_array_equal(labels, indices + 7)
        centres = (BOXES[:, :2] + BOXES[:, 2:]) / 2
        inside = ((centres >= anchor) & (centres < anchor + shape)).all(axis=1)
        np.testing.assert_array_equal(np.flatnonzero(inside), indices)
        moved = np.clip((BOXES[indices].reshape(-1, 2, 2) - anchor) / shape, 0, 1).reshape(-1, 4)
        np.testing.assert_allclose(boxes, moved, atol=1e-5)


def test_without_a_crop_nothing_changes():
    (anchor, shape, boxes), *_ = crops(runs=1, scaling=[1.0, 1.0])
    assert anchor.tolist() == [0, 0] and shape.tolist() == [1, 1]
    np.testing.assert_array_equal(boxes, BOXES)


def test_labels_of_several_numbers():
    labels = np.arange(6, dtype=np.float32).reshape(3, 2)
    for _, _, boxes, kept in crops(labels=labels, scaling=[0.3, 0.5], aspect_ratio=[0.5, 2.0], allow_no_crop=False):
        assert kept.shape == (len(boxes), 2) and (kept[:, 1] - kept[:, 0] == 1).all()


@pytest.mark.parametrize(
    "constants, message", [
        ({"thresholds": []}, "`thresholds` must be numbers"), ({"scaling": [0.5, 0.3]}, "`scaling` must be two numbers"),
        ({"crop_shape": [5, 5], "input_shape": [9, 9], "shape_layout": "WX"}, "is not a permutation"),
        ({"ltrb": True, "bbox_layout": "xyXY"}, "give only `bbox_layout`"),
    ],
)  # fmt: skip
def test_refusals(constants, message):
    with pytest.raises((RuntimeError, ValueError), match=message):
        list(crops(runs=1, **constants))
