"""full, zeros, ones and their `_like` forms: pipelines, empty input and errors; input sets of operators that make arrays."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.pipelines import pipeline_of
from helpers.tensor_parity import Failed, batch, ours, plan

from asyncdali import fn, ops, types

LABELS = [np.array([0, 2, 1], np.int32), np.array([5, 3], np.int32), np.array([], np.int32)]
FILMS = [np.arange(12, dtype=np.uint8).reshape(3, 2, 2), np.arange(16, dtype=np.uint8).reshape(4, 4, 1)]


def nothing():
    """An empty batch."""
    return []


def test_filled_samples_in_a_pipeline():
    def graph():
        films = fn.external_source(lambda: FILMS, layout="FHW")
        shape = films.shape()
        full = fn.full(np.array([7, 8], np.int16), shape=[3, 2], layout="HW")
        ones = fn.ones(shape=shape, dtype=types.UINT8)
        return fn.zeros_like(films), ones, full, fn.full_like(films, types.Constant(300)), fn.zeros(shape=[2]), films.gpu().shape()

    pipe = pipeline_of(graph, batch_size=2)
    with pipe:
        for _ in range(2):
            zeros, ones, full, like, flat, shapes = pipe.run()
            for i, film in enumerate(FILMS):
                np.testing.assert_array_equal(np.asarray(zeros[i]), np.zeros_like(film))
                np.testing.assert_array_equal(np.asarray(ones[i]), np.ones_like(film))
                np.testing.assert_array_equal(np.asarray(like[i]), np.full_like(film, 255))
                np.testing.assert_array_equal(np.asarray(shapes.as_cpu()[i]), film.shape)
            np.testing.assert_array_equal(full.as_array(), [[[7, 8]] * 3] * 2)
            flat.as_array()[:] = 9  # the user wrote into the output; the next iteration has zeros again
            assert zeros.layout() == "FHW"


def test_values_are_known_while_planning():
    for name in ("zeros", "ones"):
        assert plan(name, [], {}, {"shape": [2]}, 3).outputs[0].values.tolist() == [[int(name == "ones")] * 2] * 3
        assert plan(f"{name}_like", [batch([np.zeros(2)])], {}, {}).outputs[0].values is not None
    assert not plan("per_frame", [batch([np.zeros((2, 3))])], {}, {}).steps


def test_the_class_api_and_input_sets():
    def graph():
        labels = fn.external_source(lambda: LABELS)
        one, two = ops.OneHot(num_classes=3)([labels, labels])
        pieces = ops.ElementExtract(element_map=[0, 1])([fn.external_source(lambda: [*FILMS, FILMS[0]])] * 2)
        return one, two, *(node for output in pieces for node in output)

    pipe = pipeline_of(graph)
    with pipe:
        outputs = pipe.run()
    assert len(outputs) == 6 and len(outputs[5]) == 3


def test_empty_batches():
    def graph():
        x = fn.external_source(nothing, ndim=2, dtype=types.INT32)
        made = [fn.lookup_table(x), fn.one_hot(x, num_classes=2), fn.zeros_like(x), fn.cast_like(x, x), fn.full_like(x, x), fn.per_frame(x)]
        return *made, fn.full(x, shape=[2]), fn.element_extract(x, element_map=[0]), fn.shapes(x)

    pipe = pipeline_of(graph)
    with pipe:
        assert [len(output) for output in pipe.run()] == [0] * 9


FILM = [np.zeros((2, 3), np.uint8)]


@pytest.mark.parametrize(
    "name, inputs, arguments, message",
    [
        ("zeros", [], {"shape": [-1], "count": 1}, "must not be negative, got [-1]"),
        ("ones", [], {"shape": [1], "layout": "HW", "count": 1}, "2 letters for 1 dimensions"),
        ("zeros_like", [FILM], {"dtype": types.STRING}, "STRING has no elements"),
        ("full", [FILM], {"shape": [3, 2]}, "data of shape (2, 3) cannot be broadcast to shape (3, 2)"),
        ("full", [FILM], {"shape": [2, 1]}, "cannot be broadcast to shape (2, 1)"),
        ("full_like", [FILM, [np.zeros(2)]], {}, "cannot be broadcast"),
    ],
)
def test_errors_say_what_was_given(name, inputs, arguments, message):
    result = ours(name, inputs, **arguments)
    assert isinstance(result, Failed) and message in result.message, result
