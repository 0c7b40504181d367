"""reinterpret: the same bytes with another type and shape."""

from __future__ import annotations

import numpy as np
from helpers.pipelines import outputs_of

from asyncdali import fn, types


def test_the_bytes_do_not_change():
    sample = np.array([[1.0, -2.0]], np.float32)

    def graph():
        source = fn.external_source(lambda: [sample] * 3)
        return fn.reinterpret(source, dtype=types.UINT8), fn.reinterpret(source, dtype=types.INT32, shape=[2], layout="X")

    [[octets, words]] = outputs_of(graph)
    assert octets[0].shape == (1, 8) and octets[0].tobytes() == sample.tobytes()
    assert words[1].tolist() == sample.view(np.int32)[0].tolist()
