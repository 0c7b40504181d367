"""_shape: `DataNode.shape()`."""

from __future__ import annotations

import numpy as np
from helpers.tensor_parity import batch, plan

from asyncdali import types


def test_shapes_are_known_while_planning():
    rows = batch([np.zeros((k, 2), np.uint8) for k in (1, 2, 3)])
    planned = plan("_shape", [rows], {}, {})
    assert planned.outputs[0].values.tolist() == [[1, 2], [2, 2], [3, 2]] and not planned.steps
    assert plan("_shape", [rows], {}, {"dtype": types.FLOAT16}).outputs[0].values.dtype == np.float16
    assert plan("_shape", [batch([np.float32(1)])], {}, {}).outputs[0].values.shape == (1, 0)
