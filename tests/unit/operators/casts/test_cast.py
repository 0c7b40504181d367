"""cast: saturation and rounding."""

from __future__ import annotations

import numpy as np
from helpers import operators as harness
from helpers.pipelines import pipeline_of

from asyncdali import fn, types


def test_values_are_rounded_and_saturated():
    """Halves are rounded away from zero."""
    sample = np.array([-300.5, -0.5, 0.5, 1.5, 2.4, 254.6, 1e9, np.inf, -np.inf], np.float32)
    assert harness.run("cast", [sample], dtype=types.UINT8)[0].tolist() == [0, 0, 1, 2, 2, 255, 255, 255, 0]
    assert harness.run("cast", [np.array([-(2**40), 7], np.int64)], dtype=types.INT16)[0].tolist() == [-(2**15), 7]


def test_layouts_stay():
    with pipeline_of(lambda: fn.cast(fn.external_source(lambda: [np.zeros((2, 2))] * 3, layout="HW"), dtype=types.INT32)) as pipeline:
        [output] = pipeline.run()
        assert output.layout() == "HW" and output.dtype == types.INT32
