"""random.uniform: ranges, values, and refused arguments."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.pipelines import outputs_of

from asyncdali import fn


def test_ranges_and_values():
    def graph():
        return fn.random.uniform(range=[-2.0, 5.0], shape=[20_000]), fn.random.uniform(values=[1, 4, 9], shape=[3000])

    [[[drawn], [chosen]]] = outputs_of(graph, batch_size=1)
    assert -2 <= drawn.min() < -1.99 and 4.99 < drawn.max() < 5 and abs(drawn.mean() - 1.5) < 0.06
    values, counts = np.unique(chosen, return_counts=True)
    assert values.tolist() == [1, 4, 9] and counts.min() > 850


def test_a_range_and_values_exclude_each_other():
    with pytest.raises(ValueError, match="exclude"):
        outputs_of(lambda: fn.random.uniform(range=[0.0, 1.0], values=[1.0]))
