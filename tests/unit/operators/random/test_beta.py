"""random.beta: golden values of DALI 2.4, moments, errors."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.pipelines import outputs_of

from asyncdali import fn


def test_golden_values():
    def graph():
        return fn.random.beta(alpha=0.5, beta=0.5, shape=[4], seed=42), fn.random.beta(alpha=2.0, beta=3.0, shape=[4], seed=42)

    [[[small], [large]]] = outputs_of(graph, batch_size=1)
    assert [f"{bits:08x}" for bits in small.view(np.uint32)] == ["3dd32274", "3dd9552f", "3e8b4153", "3f5d3ef4"]
    assert [f"{bits:08x}" for bits in large.view(np.uint32)] == ["3e7ca621", "3f28dc8c", "3e950e57", "3f0d6fdc"]


def test_moments():
    [[[drawn]]] = outputs_of(lambda: fn.random.beta(alpha=2.0, beta=6.0, shape=[40_000]), batch_size=1)
    assert abs(drawn.mean() - 0.25) < 0.01 and abs(drawn.var() - 2 * 6 / (64 * 9)) < 0.002


def test_a_negative_parameter_is_refused():
    with pytest.raises(RuntimeError, match="`alpha` must be a positive number"):
        outputs_of(lambda: fn.random.beta(alpha=-1.0))
