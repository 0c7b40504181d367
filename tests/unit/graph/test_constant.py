"""constant: the same value in each sample."""

from __future__ import annotations

import numpy as np
from helpers.pipelines import pipeline_of

from asyncdali import fn, types


def test_values_and_types():
    def graph():
        return (
            fn.constant(idata=[1, 2, 3, 4], shape=[2, 2], layout="HW"), fn.constant(fdata=[0.5]),
            types.Constant(np.int16([[7]]), layout="XY"),
            fn.constant(idata=[3, 300], dtype=types.UINT8),
        )  # fmt: skip

    with pipeline_of(graph) as pipeline:
        square, half, own, octets = pipeline.run()
        assert square.as_array().tolist() == [[[1, 2], [3, 4]]] * 3 and square.layout() == "HW" and square.dtype == types.INT32
        assert half.as_array().tolist() == [[0.5]] * 3 and own.layout() == "XY" and own.dtype == types.INT16
        assert np.asarray(octets[0])[0] == 3
