"""squeeze: axes by number and by letter."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.tensor_parity import Failed, ours

SAMPLE = [np.arange(6).reshape(1, 2, 3, 1)]


@pytest.mark.parametrize(
    "arguments, shape, layout", [
        ({"axes": [0]}, (2, 3, 1), "HWC"), ({"axes": [-1, 0]}, (2, 3), "HW"), ({"axis_names": "C"}, (1, 2, 3), "FHW"),
        ({"axes": []}, (1, 2, 3, 1), "FHWC"),
    ],
)  # fmt: skip
def test_axes_are_removed(arguments, shape, layout):
    found = ours("squeeze", [SAMPLE], ["FHWC"], **arguments)
    np.testing.assert_array_equal(found.samples[0], SAMPLE[0].reshape(shape))
    assert found.layout == layout


def test_axes_per_sample_must_be_distinct():
    result = ours("squeeze", [SAMPLE], [""], {"axes": [np.array([0, -4])]})
    assert isinstance(result, Failed) and "more than once" in result.message
