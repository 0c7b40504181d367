"""batch_permutation: known streams, its flags, and checkpoints."""

from __future__ import annotations

import numpy as np
from helpers.pipelines import pipeline_of, values

from asyncdali import fn


def test_known_answers():
    """The values come from the specification of the random stream (N = 8, seed 42)."""

    def graph():
        plain = fn.batch_permutation(seed=42)
        return plain, fn.batch_permutation(seed=42, no_fixed_points=True), fn.batch_permutation(seed=42, allow_repetitions=True)

    pipe = pipeline_of(graph, batch_size=8)
    with pipe:
        drawn = values(pipe.run())
    assert drawn == [[4, 3, 6, 7, 0, 1, 5, 2], [5, 4, 3, 0, 7, 6, 1, 2], [4, 3, 0, 2, 7, 2, 4, 3]]


def test_the_flags_limit_permutations():
    def graph():
        both = fn.batch_permutation(no_fixed_points=True, allow_repetitions=True)
        return fn.batch_permutation(no_fixed_points=True), both, fn.batch_permutation(allow_repetitions=True)

    pipe = pipeline_of(graph, batch_size=11)
    with pipe:
        for _ in range(20):
            moved, both, _ = (output.as_array() for output in pipe.run())
            assert sorted(moved) == list(range(11)) and (moved != np.arange(11)).all() and (both != np.arange(11)).all()


def test_a_checkpoint_resumes_the_stream():
    with pipeline_of(lambda: fn.batch_permutation(), enable_checkpointing=True) as first:
        first.run()
        saved, following = first.checkpoint(), values(first.run())
    with pipeline_of(lambda: fn.batch_permutation(), enable_checkpointing=True, checkpoint=saved) as second:
        assert values(second.run()) == following
