"""element_extract: frames of sequences."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.pipelines import pipeline_of
from helpers.tensor_parity import Failed, ours

from asyncdali import fn

FILM = [np.zeros((2, 3), np.uint8)]
FILMS = [np.arange(12, dtype=np.uint8).reshape(3, 2, 2), np.arange(16, dtype=np.uint8).reshape(4, 4, 1)]


def test_frames_in_a_pipeline():
    def graph():
        films = fn.external_source(lambda: FILMS, layout="FHW")
        first, last = fn.element_extract(films, element_map=[0, 2])
        return first, last, fn.per_frame(films)

    pipe = pipeline_of(graph, batch_size=2)
    with pipe:
        first, last, frames = pipe.run()
    for i, film in enumerate(FILMS):
        np.testing.assert_array_equal(np.asarray(first[i]), film[0])
        np.testing.assert_array_equal(np.asarray(last[i]), film[2])
    assert first.layout() == "HW" and frames.layout() == "FHW"


@pytest.mark.parametrize(
    "name, inputs, arguments, message",
    [
        ("element_extract", [FILM], {"element_map": [0, 2]}, "frame 2 of a sequence of 2"),
        ("element_extract", [FILM], {"element_map": [-2]}, "must not be negative, got -2"),
        ("element_extract", [FILM], {"element_map": []}, "`element_map` is empty"),
        ("element_extract", [[np.zeros(3)]], {"element_map": [0]}, "has 1 dimensions; supported are: 2 or more"),
    ],
)
def test_errors_say_what_was_given(name, inputs, arguments, message):
    result = ours(name, inputs, **arguments)
    assert isinstance(result, Failed) and message in result.message, result


def test_layouts_that_are_no_sequence():
    assert 'layout "HW" does not match any of the allowed layouts' in ours("element_extract", [FILM], ["HW"], element_map=[0]).message
