"""box_encoder against DALI: the same assignments; boxes to the last bit, offsets within roundings."""

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
    with pytest.raises(RuntimeError, match="2 boxes, but labels of shape"):
        ours([np.zeros((2, 4), np.float32)], [np.zeros(1, np.int32)], anchors=[0.0, 0.0, 1.0, 1.0])
