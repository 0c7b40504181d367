"""reshape: shapes, a wildcard, relative shapes, and layouts."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.pipelines import outputs_of, pipeline_of

from asyncdali import fn


def test_shapes():
    rows = [np.arange(12).reshape(3, 4)] * 3

    def graph():
        source = fn.external_source(lambda: rows, layout="HW")
        return fn.reshape(source, shape=[2, -1]), fn.reshape(source, rel_shape=[2, 0.5]), fn.reshape(source, layout="XY")

    with pipeline_of(graph) as pipeline:
        halves, shares, renamed = pipeline.run()
        np.testing.assert_array_equal(np.asarray(halves[0]), rows[0].reshape(2, 6))
        np.testing.assert_array_equal(np.asarray(shares[1]), rows[0].reshape(6, 2))
        assert renamed.layout() == "XY" and np.asarray(renamed[2]).shape == (3, 4)


def test_volumes_that_differ_are_refused():
    with pytest.raises((RuntimeError, ValueError), match="7"):
        outputs_of(lambda: fn.reshape(fn.external_source(lambda: [np.zeros(12)] * 3), shape=[7]))
