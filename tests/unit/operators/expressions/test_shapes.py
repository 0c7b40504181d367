"""shapes: the extents of each sample."""

from __future__ import annotations

import numpy as np
from helpers.pipelines import pipeline_of
from helpers.tensor_parity import Failed, ours

from asyncdali import fn, types

FILM = [np.zeros((2, 3), np.uint8)]
FILMS = [np.arange(12, dtype=np.uint8).reshape(3, 2, 2), np.arange(16, dtype=np.uint8).reshape(4, 4, 1)]


def test_the_extents_of_each_sample():
    def graph():
        films = fn.external_source(lambda: FILMS, layout="FHW")
        return fn.shapes(films, dtype=types.INT32), films.gpu().shape()

    with pipeline_of(graph, batch_size=2) as pipe:
        shapes, on_gpu = pipe.run()
        assert [np.asarray(shape).tolist() for shape in shapes] == [[3, 2, 2], [4, 4, 1]] and shapes.dtype == types.INT32
        assert [np.asarray(shape).tolist() for shape in on_gpu.as_cpu()] == [[3, 2, 2], [4, 4, 1]]


def test_types_that_are_too_small_are_refused():
    result = ours("shapes", [FILM], dtype=types.UINT8)
    assert isinstance(result, Failed) and "must be one of INT32" in result.message
