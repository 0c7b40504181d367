"""ones: shapes, types and layouts."""

from __future__ import annotations

import numpy as np
from helpers.pipelines import outputs_of

from asyncdali import fn, types


def test_shape_type_and_layout():
    sizes = [np.int32([k, 2]) for k in range(3)]

    def graph():
        return fn.ones(shape=fn.external_source(lambda: sizes), dtype=types.INT16, layout="HW"), fn.ones()

    [[filled, scalars]] = outputs_of(graph)
    assert [sample.shape for sample in filled] == [(0, 2), (1, 2), (2, 2)] and filled[2].dtype == np.int16
    assert (filled[2] == 1).all() and [sample.tolist() for sample in scalars] == [1] * 3 and scalars[0].dtype == np.int32
