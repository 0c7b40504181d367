"""cast_like: the output has the type of the second input."""

from __future__ import annotations

import numpy as np
from helpers.pipelines import outputs_of

from asyncdali import fn


def test_the_type_of_the_second_input():
    def graph():
        numbers = fn.external_source(lambda: [np.array([1.4, -3, 70_000], np.float32)] * 3)
        return fn.cast_like(numbers, np.int16([0])), fn.cast_like(numbers, np.int32([0]))

    [[small, wide]] = outputs_of(graph)
    assert small[2].dtype == np.int16 and small[2].tolist() == [1, -3, 2**15 - 1]
    assert wide[0].dtype == np.int32 and wide[0].tolist() == [1, -3, 70_000]
