"""box_encoder: each anchor takes the box that it overlaps most."""

from __future__ import annotations

import numpy as np
from helpers.pipelines import outputs_of

from asyncdali import fn


def test_box_encoder_takes_the_best_box():
    anchors = [0.0, 0.0, 0.5, 0.5, 0.5, 0.5, 1.0, 1.0, 0.0, 0.5, 0.5, 1.0]
    boxes = np.array([[0.0, 0.0, 0.5, 0.4], [0.6, 0.6, 0.7, 0.7]], np.float32)

    def graph():
        sources = fn.external_source(lambda: [boxes] * 3), fn.external_source(lambda: [np.array([4, 5], np.int32)] * 3)
        return (*fn.box_encoder(*sources, anchors=anchors), *fn.box_encoder(*sources, anchors=anchors, offset=True))

    encoded, labels, offsets, _ = outputs_of(graph)[0]
    assert labels[0].tolist() == [4, 5, 0]
    np.testing.assert_allclose(encoded[0], [[0.25, 0.2, 0.5, 0.4], [0.65, 0.65, 0.1, 0.1], [0.25, 0.75, 0.5, 0.5]], atol=1e-6)
    expected = [[0, -0.1, 0, np.log(0.8)], [-0.2, -0.2, np.log(0.2), np.log(0.2)], [0, 0, 0, 0]]
    np.testing.assert_allclose(offsets[0], expected, atol=1e-5)
