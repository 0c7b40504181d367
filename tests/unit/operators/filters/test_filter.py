"""filter: a correlation with a window of each sample."""

from __future__ import annotations

import numpy as np
import pytest
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


@pytest.mark.parametrize("window", [(3, 1), (3, 5), (4, 3), (6, 2), (9, 9), (2, 3, 3), (3, 5, 2)])
def test_sums_are_in_the_order_of_the_taps(window):
    """Large images are summed in blocks of pixels and rows. The result has the bits of one sum after another in float32."""
    random = np.random.default_rng(2)
    layout, extents = ("DHWC", (5,)) if len(window) == 3 else ("HWC", ())
    image = random.normal(0, 50, (*extents, 23, 31, 3)).astype(np.float32)
    image.flat[::97] = -0.0
    kernel = random.normal(0, 1, window).astype(np.float32)

    def graph():
        source, weights = fn.external_source(lambda: [image] * 3, layout=layout), fn.external_source(lambda: [kernel] * 3)
        return fn.filter(source, weights, border="clamp")

    found = outputs_of(graph)[0][0][1]
    sides = [(extent // 2, extent - 1 - extent // 2) for extent in window]
    padded = np.pad(image, [*sides, (0, 0)], mode="edge")
    expected = None
    for place in np.ndindex(window):
        cut = padded[tuple(slice(begin, begin + size) for begin, size in zip(place, image.shape[:-1], strict=True))]
        expected = kernel[place] * cut if expected is None else expected + kernel[place] * cut
    assert found.tobytes() == expected.tobytes()
