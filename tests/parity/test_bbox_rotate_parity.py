"""bbox_rotate beside DALI's: boxes, labels and refusals."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.parity import dali_outputs
from helpers.tensor_parity import Failed, batch, ours, plan, random_cases, theirs

pytest.importorskip("nvidia.dali")


def case(rng, reverse=False):
    """Random boxes; with `reverse` some end before they begin."""
    count, layout = int(rng.integers(1, 5)), str(rng.choice(["xyXY", "xyWH"]))
    shapes = rng.integers(5, 200, (count, 2))
    mode, relative, canvas = str(rng.choice(["expand", "fixed", "halfway"])), bool(rng.integers(2)), rng.integers(3)
    angles = rng.uniform(-400, 400, count)
    # At odd multiples of 45 degrees, rounding errors decide in the other modes (docs/differences.md).
    if mode == "expand" and rng.random() < 0.3:
        angles = rng.integers(-8, 9, count) * 45.0
    boxes, labels = [], []
    for height, width in shapes:
        n = int(rng.integers(0, 8))
        corners = rng.uniform(-0.2, 1.2, (n, 2, 2))
        corners = (corners if reverse else np.sort(corners, axis=1)).reshape(n, 4)
        corners = corners if relative else corners * [width, height, width, height]
        if layout == "xyWH":
            corners[:, 2:] -= corners[:, :2]
        boxes.append(corners.astype(np.float32))
        labels.append(rng.integers(0, 100, n).astype(np.int32))
    named = {"angle": list(angles.astype(np.float32)), "input_shape": list(shapes.astype(np.int32))}
    constants = {
        "bbox_layout": layout,
        "bbox_normalized": relative,
        "mode": mode,
        "remove_threshold": float(rng.choice([0, 0.1, 0.4, 0.8])),
    }
    if canvas == 1:
        constants["keep_size"] = True
    elif canvas == 2:
        named["size"] = list(rng.uniform(5, 200, (count, 2)).astype(np.float32))
    return [boxes, labels], named, constants


def check(rng, reverse=False):
    inputs, named, constants = case(rng, reverse)
    expected = dali_outputs("bbox_rotate", inputs, ["", ""], named, **constants)
    planned = plan("bbox_rotate", [batch(samples) for samples in inputs], {key: batch(value) for key, value in named.items()}, constants)
    for wanted, output in zip(expected, planned.outputs, strict=True):
        for i, sample in enumerate(wanted):
            got = output.sample(i)
            assert got.shape == sample.shape and got.dtype == sample.dtype
            np.testing.assert_allclose(got, sample, rtol=2e-5, atol=2e-6 if constants["bbox_normalized"] else 2e-4)


def test_boxes_and_labels():
    random_cases(check, 40)


def test_boxes_that_end_before_they_begin():
    random_cases(lambda rng: check(rng, reverse=True), 40)


@pytest.mark.parametrize(
    "boxes, labels, constants", [
        (np.zeros((2, 4)), None, {}), (np.zeros((2, 4), np.float32), np.zeros(2), {}),
        (np.zeros((2, 4), np.float32), np.zeros(3, np.int32), {}), (np.zeros((2, 4), np.float32), np.zeros((2, 2), np.int32), {}),
        (np.zeros((2, 4), np.float32), None, {"mode": "wide"}), (np.zeros((2, 4), np.float32), None, {"bbox_layout": "WHxy"}),
        (np.zeros((2, 4), np.float32), None, {"remove_threshold": 1.0}), (np.zeros((2, 4), np.float32), None, {"shape_layout": "XY"}),
        (np.zeros((2, 4), np.float32), None, {"size": [3.0]}),
        (np.zeros((2, 4), np.float32), None, {"keep_size": True, "size": [3.0, 3.0]}),
        (np.zeros((2, 4), np.float32), None, {"input_shape": [3]}),
    ],
)  # fmt: skip
def test_refused_by_both(boxes, labels, constants):
    inputs = [[boxes]] + ([] if labels is None else [[labels]])
    given = {"angle": 30.0, "input_shape": [10, 20], **constants}
    assert isinstance(theirs("bbox_rotate", inputs, **given), Failed)
    assert isinstance(ours("bbox_rotate", inputs, **given), Failed)
