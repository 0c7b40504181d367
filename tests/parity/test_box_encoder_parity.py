"""box_encoder beside DALI's: equal assignments, boxes that are equal to the last bit, and offsets within the rounding error."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.parity import dali_outputs
from helpers.pipelines import pipeline_of

from asyncdali import fn

pytest.importorskip("nvidia.dali")


def ours(boxes, labels, **constants):
    def graph():
        return tuple(fn.box_encoder(fn.external_source(lambda: boxes), fn.external_source(lambda: labels), **constants))

    with pipeline_of(graph, batch_size=len(boxes)) as pipeline:
        return [[np.array(output.at(i)) for i in range(len(boxes))] for output in pipeline.run()]


def random_boxes(rng, count):
    corners = np.sort(rng.random((count, 2, 2)), axis=1)
    return corners.reshape(count, 4).astype(np.float32)


def grid_boxes(rng, count, steps):
    """Boxes whose corners are on a coarse grid. Many boxes are equal, and many pairs overlap by the same amount."""
    corner, extent = rng.integers(0, steps, (count, 2)), rng.integers(1, steps, (count, 2))
    return (np.concatenate([corner, np.minimum(corner + extent, steps)], axis=1) / steps).astype(np.float32)


def targets(boxes, anchors, **constants):
    """Our outputs and DALI's. The label of a box is its number, counted from 1."""
    labels = [np.arange(1, len(rows) + 1, dtype=np.int32) for rows in boxes]
    named = {"anchors": [float(x) for x in np.ravel(anchors)], **constants}
    return ours(boxes, labels, **named), dali_outputs("box_encoder", [boxes, labels], ["", ""], **named)


def boxes_of(*rows):
    return [np.array(rows, np.float32)]


TIES = {
    "equal boxes": (boxes_of((0.2, 0.2, 0.5, 0.5), (0.2, 0.2, 0.5, 0.5)), [(0.2, 0.2, 0.5, 0.5), (0.2, 0.2, 0.5, 0.51)], [2, 2]),
    "a small box in two anchors of one size": (boxes_of((0.5, 0.5, 0.6, 0.6)), [(0, 0, 0.75, 0.75), (0.25, 0.25, 1, 1)], [0, 1]),
    "a box that meets no anchor": (boxes_of((0.8, 0.8, 0.9, 0.9)), [(0, 0, 0.1, 0.1), (0.1, 0, 0.2, 0.1), (0.2, 0, 0.3, 0.1)], [0, 0, 1]),
    "equal anchors": (boxes_of((0, 0, 0.5, 0.5), (0.5, 0.5, 1, 1)), [(0, 0, 0.5, 0.5)] * 3, [1, 1, 2]),
    "an overlap that equals the criterion": (boxes_of((0, 0, 0.5, 1), (0.5, 0, 1, 1)), [(0, 0, 1, 1), (0, 0, 1, 1)], [0, 2]),
}


@pytest.mark.parametrize("name", TIES)
def test_the_last_of_equal_overlaps_wins(name):
    boxes, anchors, expected = TIES[name]
    mine, theirs = targets(boxes, anchors, criteria=0.5)
    assert theirs[1][0].tolist() == expected
    np.testing.assert_array_equal(mine[1][0], theirs[1][0])
    np.testing.assert_array_equal(mine[0][0], theirs[0][0])


@pytest.mark.parametrize("offset", [False, True])
@pytest.mark.parametrize("criteria", [0.0, 0.25, 1 / 3, 0.5, 1.0])
def test_boxes_and_anchors_on_a_grid(criteria, offset):
    rng = np.random.default_rng(5)
    for steps in (2, 3, 5):
        anchors = grid_boxes(rng, 10, steps)
        mine, theirs = targets([grid_boxes(rng, n, steps) for n in rng.integers(0, 8, 64)], anchors, criteria=criteria, offset=offset)
        for i in range(64):
            np.testing.assert_array_equal(mine[1][i], theirs[1][i])
            np.testing.assert_allclose(mine[0][i], theirs[0][i], rtol=1e-5, atol=3e-5 if offset else 1e-7)


FULL = {"offset": True, "scale": 300.0, "means": [0.1, 0.2, 0.3, 0.4], "stds": [0.1, 0.1, 0.2, 0.2]}


@pytest.mark.parametrize("constants", [{}, {"criteria": 0.2}, {"offset": True}, FULL])
def test_encoded(constants):
    rng = np.random.default_rng(1)
    anchors = [float(x) for x in random_boxes(rng, 200).ravel()]
    boxes = [random_boxes(rng, n) for n in (0, 1, 3, 8, 20)]
    labels = [rng.integers(1, 90, len(rows)).astype(np.int32) for rows in boxes]
    theirs = dali_outputs("box_encoder", [boxes, labels], ["", ""], anchors=anchors, **constants)
    mine = ours(boxes, labels, anchors=anchors, **constants)
    for i in range(len(boxes)):
        np.testing.assert_array_equal(mine[1][i], theirs[1][i])
        np.testing.assert_allclose(mine[0][i], theirs[0][i], rtol=1e-5, atol=3e-5 if constants.get("offset") else 1e-7)
    assert any((row != 0).sum() > 3 for row in mine[1])


@pytest.mark.parametrize("constants", [{"anchors": [0.1, 0.2, 0.3]}, {"anchors": [0.1, 0.2, 0.3, 0.4], "criteria": 2.0}])
def test_both_refuse(constants):
    boxes, labels = [np.zeros((1, 4), np.float32)], [np.zeros(1, np.int32)]
    with pytest.raises(RuntimeError):
        dali_outputs("box_encoder", [boxes, labels], ["", ""], **constants)
    with pytest.raises((RuntimeError, ValueError)):
        ours(boxes, labels, **constants)


def test_labels_that_do_not_fit_are_refused():
    with pytest.raises(RuntimeError, match="2 boxes, but its labels have shape"):
        ours([np.zeros((2, 4), np.float32)], [np.zeros(1, np.int32)], anchors=[0.0, 0.0, 1.0, 1.0])
