"""filter: a correlation with a window of each sample."""

from __future__ import annotations

import numpy as np
from helpers.pipelines import outputs_of

from asyncdali import fn


def test_filter_is_a_correlation():
    image = np.random.default_rng(1).integers(0, 100, (6, 7, 2)).astype(np.float32)
    kernel = np.array([[1, 2, 3]], np.float32)

    def graph():
        source, weights = fn.external_source(lambda: [image] * 3, layout="HWC"), fn.external_source(lambda: [kernel] * 3)
        return fn.filter(source, weights, border="constant"), fn.filter(source, weights, mode="valid")

    same, valid = outputs_of(graph)[0]
    padded = np.pad(image, [(0, 0), (1, 1), (0, 0)])
    expected = padded[:, :-2] + 2 * padded[:, 1:-1] + 3 * padded[:, 2:]
    np.testing.assert_allclose(same[0], expected)
    np.testing.assert_allclose(valid[2], expected[:, 1:-1])
