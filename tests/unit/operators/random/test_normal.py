"""random.normal: moments, types, shapes of another input."""

from __future__ import annotations

import numpy as np
from helpers.pipelines import outputs_of

from asyncdali import fn, types


def test_moments_and_repetition():
    def graph():
        return tuple(fn.random.normal(mean=3.0, stddev=2.0, shape=[20_000], seed=7) for _ in range(2))

    [[[drawn], [again]]] = outputs_of(graph, batch_size=1)
    np.testing.assert_array_equal(drawn, again)
    assert abs(drawn.mean() - 3) < 0.06 and abs(drawn.std() - 2) < 0.05
    assert abs(((drawn - 3) ** 3).mean()) < 0.5 and abs((((drawn - 3) / 2) ** 4).mean() - 3) < 0.3


def test_shapes_and_types():
    like = [np.zeros((k, 2)) for k in (1, 3, 0)]
    [[found]] = outputs_of(lambda: fn.random.normal(fn.external_source(lambda: like), dtype=types.INT16, stddev=9.0))
    assert [sample.shape for sample in found] == [(1, 2), (3, 2), (0, 2)] and found[1].dtype == np.int16
