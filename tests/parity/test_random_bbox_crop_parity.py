"""random_bbox_crop beside DALI's: windows, boxes, labels and indices are equal to the last bit."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.parity import dali_outputs, same
from helpers.pipelines import pipeline_of

from asyncdali import fn

pytest.importorskip("nvidia.dali")


def feeder(samples):
    return lambda: samples


def ours(inputs, per_sample=None, **constants):
    def graph():
        nodes = [fn.external_source(feeder(samples)) for samples in inputs]
        named = {key: fn.external_source(feeder(list(values))) for key, values in (per_sample or {}).items()}
        return tuple(fn.random_bbox_crop(*nodes, **named, **constants))

    with pipeline_of(graph, batch_size=len(inputs[0])) as pipeline:
        return [[np.array(output.at(i)) for i in range(len(inputs[0]))] for output in pipeline.run()]


def check(inputs, per_sample=None, **constants):
    theirs = dali_outputs("random_bbox_crop", inputs, [""] * len(inputs), per_sample, **constants)
    mine = ours(inputs, per_sample, **constants)
    assert len(theirs) == len(mine)
    for a, b in zip(theirs, mine, strict=True):
        same(a, b)


def boxes(rng, axes=2, count=24):
    made = []
    for n in rng.integers(0, 5, count):
        corners = np.sort(rng.random((n, 2, axes)), axis=1)
        made.append(corners.reshape(n, 2 * axes).astype(np.float32))
    return made


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("axes", [2, 3])
def test_relative_windows(seed, axes):
    rng = np.random.default_rng([seed, axes])
    data = boxes(rng, axes)
    low = float(rng.uniform(0.1, 0.6))
    aspects = [1.0, 1.0] if seed % 4 == 0 else [0.5, 2.0]
    if axes == 3 and seed % 3 == 0:
        aspects = [0.5, 2.0, 1.0, 1.0, 0.4, 3.0]
    constants = {
        "scaling": [low, float(rng.uniform(low, 1))], "aspect_ratio": aspects, "thresholds": [0.0, 0.1, 0.3], "num_attempts": 1 + seed % 3,
        "allow_no_crop": bool(seed % 2), "all_boxes_above_threshold": bool(seed % 3), "threshold_type": ["iou", "overlap"][seed % 2],
        "total_num_attempts": 50, "seed": seed * 77, "output_bbox_indices": bool(seed % 2),
    }  # fmt: skip
    if seed % 3 == 1:
        constants["bbox_prune_threshold"] = float(rng.uniform(0, 0.9))
    if seed % 3 == 2:
        constants["input_shape"] = [int(x) for x in rng.integers(50, 300, axes)]
    labels = [np.arange(len(rows), dtype=np.int32) * 3 for rows in data]
    check([data, labels] if seed % 2 else [data], **constants)


@pytest.mark.parametrize("seed", range(6))
def test_windows_of_a_given_shape(seed):
    rng = np.random.default_rng(seed)
    data = boxes(rng)
    per_sample = {
        "crop_shape": rng.integers(10, 120, (24, 2)).astype(np.int32), "input_shape": rng.integers(60, 130, (24, 2)).astype(np.int32)
    }  # fmt: skip
    constants = {"thresholds": [0.0, 0.2], "total_num_attempts": 20, "seed": seed}
    check([data], per_sample, **constants)
    check([data], per_sample, shape_layout="HW", **constants)


@pytest.mark.parametrize("layout", ["xyXY", "xyWH", "yxHW", "XYxy"])
def test_box_layouts(layout):
    rng = np.random.default_rng(9)
    data = []
    for rows in boxes(rng):
        values = {"x": rows[:, 0], "y": rows[:, 1], "X": rows[:, 2], "Y": rows[:, 3]}
        values |= {"W": (rows[:, 2] - rows[:, 0]) * np.float32(0.99), "H": (rows[:, 3] - rows[:, 1]) * np.float32(0.99)}
        data.append(np.stack([values[letter] for letter in layout], axis=1))
    check([data], bbox_layout=layout, scaling=[0.3, 0.9], aspect_ratio=[0.5, 2.0], total_num_attempts=30, allow_no_crop=False, seed=4)


@pytest.mark.parametrize(
    "constants", [
        {"scaling": [0.5]}, {"aspect_ratio": [1.0]}, {"threshold_type": "area"}, {"num_attempts": 0}, {"crop_shape": [5, 5]},
        {"crop_shape": [5, 5], "input_shape": [9, 9], "scaling": [0.5, 1.0]},
        {"crop_shape": [5, 5], "input_shape": [9, 9], "allow_no_crop": True}, {"bbox_layout": "xyzXYZ"},
    ],
)  # fmt: skip
def test_both_refuse(constants):
    data = [np.array([[0.1, 0.1, 0.5, 0.5]], np.float32)]
    with pytest.raises(RuntimeError):
        dali_outputs("random_bbox_crop", [data], [""], **constants)
    with pytest.raises((RuntimeError, ValueError)):
        ours([data], **constants)


def test_both_refuse_boxes_out_of_the_image():
    for row in ([0.1, 0.1, 1.5, 0.5], [-0.1, 0.1, 0.5, 0.5]):
        data = [np.array([row], np.float32)]
        with pytest.raises(RuntimeError):
            dali_outputs("random_bbox_crop", [data], [""])
        with pytest.raises(RuntimeError, match="out of bounds"):
            ours([data])
