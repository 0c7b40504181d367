"""random.choice: golden values of DALI 2.4, contents of slices, shapes, errors."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.pipelines import outputs_of, pipeline_of, values

from asyncdali import fn


def test_golden_values():
    def graph():
        return fn.random.choice(10, shape=[6], seed=42), fn.random.choice(3, p=[0.2, 0.3, 0.5], shape=[6], seed=42)

    [[[ten], [three]]] = outputs_of(graph, batch_size=1)
    assert ten.tolist() == [6, 9, 7, 3, 4, 6] and three.tolist() == [1, 1, 2, 2, 2, 1]


def test_slices_keep_their_contents_and_iterations_differ():
    table = np.arange(12, dtype=np.int16).reshape(4, 3)
    first, second = (np.array(drawn) for [drawn] in outputs_of(lambda: fn.random.choice(table, shape=[8]), 2))
    assert first.shape == (3, 8, 3) and (first != second).any()
    assert ((first - first[..., :1]) == [0, 1, 2]).all() and set(first[..., 0].ravel()) <= {0, 3, 6, 9}


def test_shapes_that_differ_between_samples():
    like = [np.zeros((k, 2)) for k in (1, 3, 0)]
    with pipeline_of(lambda: fn.random.choice([5, 6, 7], fn.external_source(lambda: like))) as pipeline:
        (drawn,) = values(pipeline.run())
    assert [np.shape(sample) for sample in drawn] == [(1, 2), (3, 2), (0,)]


@pytest.mark.parametrize(
    "make, message", [
        (lambda: fn.random.choice(3, p=[0.5, 0.5]), "`p` has 2 weights for 3 elements"),
        (lambda: fn.random.choice(2, p=[0.5, 0.6]), "whose sum is 1"),
        (lambda: fn.random.choice(0), "the input is empty: the value of the scalar is 0"),
    ],
)  # fmt: skip
def test_errors_name_the_sample(make, message):
    with pipeline_of(make) as pipeline, pytest.raises(RuntimeError, match=message):
        pipeline.run()
