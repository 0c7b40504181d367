"""get_property and the shapes of nodes."""

from __future__ import annotations

import numpy as np
from helpers.pipelines import outputs_of

from asyncdali import fn, types


def test_shapes_and_layouts():
    rows = [np.zeros((k, 2), np.uint8) for k in (1, 2, 3)]

    def graph():
        source = fn.external_source(lambda: rows, layout="HW")
        return source.shape(), source.shape(dtype=types.FLOAT), fn.get_property(source, key="layout")

    [[shapes, floats, layouts]] = outputs_of(graph)
    assert [shape.tolist() for shape in shapes] == [[1, 2], [2, 2], [3, 2]] and floats[2].tolist() == [3.0, 2.0]
    assert floats[2].dtype == np.float32 and layouts[1].tobytes() == b"HW"
