"""random.choice and random.beta: golden values of DALI 2.4, moments, positions."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.pipelines import pipeline_of, values

from asyncdali import fn


def draw(graph, runs=1, **options):
    with pipeline_of(graph, **options) as pipeline:
        return [[output.as_array().copy() for output in pipeline.run()] for _ in range(runs)]


def test_golden_values():
    def graph():
        return (
            fn.random.choice(10, shape=[6], seed=42), fn.random.choice(3, p=[0.2, 0.3, 0.5], shape=[6], seed=42),
            fn.random.beta(alpha=0.5, beta=0.5, shape=[4], seed=42), fn.random.beta(alpha=2.0, beta=3.0, shape=[4], seed=42),
        )  # fmt: skip

    ((ten, three, small, large),) = draw(graph, batch_size=1)
    assert ten.tolist() == [[6, 9, 7, 3, 4, 6]] and three.tolist() == [[1, 1, 2, 2, 2, 1]]
    assert [f"{bits:08x}" for bits in small.view(np.uint32)[0]] == ["3dd32274", "3dd9552f", "3e8b4153", "3f5d3ef4"]
    assert [f"{bits:08x}" for bits in large.view(np.uint32)[0]] == ["3e7ca621", "3f28dc8c", "3e950e57", "3f0d6fdc"]


def test_beta_has_its_moments():
    ((drawn,),) = draw(lambda: fn.random.beta(alpha=2.0, beta=6.0, shape=[40_000]), batch_size=1)
    assert abs(drawn.mean() - 0.25) < 0.01 and abs(drawn.var() - 2 * 6 / (64 * 9)) < 0.002


def test_slices_keep_their_contents_and_iterations_differ():
    table = np.arange(12, dtype=np.int16).reshape(4, 3)
    first, second = draw(lambda: fn.random.choice(table, shape=[8]), runs=2)
    assert first[0].shape == (3, 8, 3) and (first[0] != second[0]).any()
    assert ((first[0] - first[0][..., :1]) == [0, 1, 2]).all() and set(first[0][..., 0].ravel()) <= {0, 3, 6, 9}


def test_shapes_that_differ_between_samples():
    like = [np.zeros((k, 2)) for k in (1, 3, 0)]
    with pipeline_of(lambda: fn.random.choice([5, 6, 7], fn.external_source(lambda: like))) as pipeline:
        (drawn,) = values(pipeline.run())
    assert [np.shape(sample) for sample in drawn] == [(1, 2), (3, 2), (0,)]


@pytest.mark.parametrize(
    "make, message", [
        (lambda: fn.random.choice(3, p=[0.5, 0.5]), "`p` has 2 weights for 3 elements"),
        (lambda: fn.random.choice(2, p=[0.5, 0.6]), "whose sum is 1"),
        (lambda: fn.random.choice(0), "the input is empty: its value is 0"),
        (lambda: fn.random.beta(alpha=-1.0), "`alpha` must be a positive number"),
    ],
)  # fmt: skip
def test_errors_name_the_sample(make, message):
    with pipeline_of(make) as pipeline, pytest.raises(RuntimeError, match=message):
        pipeline.run()
