"""pad: to the largest sample of a batch, to a shape, and to a multiple."""

from __future__ import annotations

import numpy as np
from helpers.pipelines import outputs_of

from asyncdali import fn

ROWS = [np.ones((1, 3), np.int16), np.full((2, 2), 2, np.int16), np.full((3, 1), 3, np.int16)]


def test_extents():
    def graph():
        rows = fn.external_source(lambda: ROWS, layout="HW")
        return fn.pad(rows, fill_value=-1), fn.pad(rows, axes=[1], align=[4]), fn.pad(rows, axis_names="W", shape=[5])

    [[largest, aligned, shaped]] = outputs_of(graph)
    for k, row in enumerate(ROWS):
        height, width = row.shape
        assert largest[k].shape == (3, 3) and aligned[k].shape == (height, 4) and shaped[k].shape == (height, 5)
        np.testing.assert_array_equal(largest[k][:height, :width], row)
        assert (largest[k] == -1).sum() == 9 - row.size and shaped[k][:, width:].sum() == 0
