"""lookup_table, one_hot, full, zeros, ones (and like), element_extract, per_frame, shapes, cast_like: pipelines, empty input, errors."""

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


def test_labels_in_a_pipeline_on_both_devices():
    def graph():
        labels = fn.external_source(lambda: LABELS, layout="X")
        table = fn.lookup_table(labels, keys=[2, 3], values=[0.5, 7], default_value=-1)
        return (
            table,
            fn.one_hot(labels.gpu(), num_classes=4, axis_name="C", dtype=types.UINT8),
            fn.cast_like(labels, np.float16([1])),
            labels,
        )

    pipe = pipeline_of(graph)
    with pipe:
        table, vectors, halves, _ = pipe.run()
    assert [np.asarray(row).tolist() for row in table] == [[-1, 0.5, -1], [-1, 7], []]
    for row, label in zip(vectors.as_cpu(), LABELS):
        np.testing.assert_array_equal(np.asarray(row), np.eye(6, 4, dtype=np.uint8)[label] if len(label) else np.zeros((0, 4)))
    assert vectors.layout() == "XC" and halves.dtype == types.FLOAT16


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
            flat.as_array()[:] = 9  # the user's copy: the next iteration has zeros again
            assert zeros.layout() == "FHW"


def test_frames_in_a_pipeline():
    def graph():
        films = fn.external_source(lambda: FILMS, layout="FHW")
        first, last = fn.element_extract(films, element_map=[0, 2])
        return first, last, fn.per_frame(films), fn.shapes(films, dtype=types.INT32)

    pipe = pipeline_of(graph, batch_size=2)
    with pipe:
        first, last, frames, shapes = pipe.run()
    for i, film in enumerate(FILMS):
        np.testing.assert_array_equal(np.asarray(first[i]), film[0])
        np.testing.assert_array_equal(np.asarray(last[i]), film[2])
        assert np.asarray(shapes[i]).tolist() == list(film.shape)
    assert first.layout() == "HW" and frames.layout() == "FHW" and shapes.dtype == types.INT32


def test_filled_values_are_known_while_planning():
    for name in ("zeros", "ones"):
        assert plan(name, [], {}, {"shape": [2]}, 3).outputs[0].values.tolist() == [[int(name == "ones")] * 2] * 3
        assert plan(f"{name}_like", [batch([np.zeros(2)])], {}, {}).outputs[0].values is not None
    assert not plan("per_frame", [batch([np.zeros((2, 3))])], {}, {}).steps


def test_keys_out_of_range_of_every_type():
    for dtype, extreme in (("int8", -128), ("int64", -(2**63)), ("uint64", 2**64 - 1), ("int32", 2**31 - 1)):
        sample = np.array([extreme, 1], dtype)
        assert ours("lookup_table", [[sample]], keys=[1], values=[5.0], default_value=2).samples[0].tolist() == [2, 5]
        assert ours("one_hot", [[sample]], num_classes=2).samples[0].tolist() == [[0, 0], [0, 1]]
    assert ours("one_hot", [[np.array([np.nan, np.inf, -np.inf], np.float32)]], num_classes=1).samples[0].sum() == 0
    assert ours("lookup_table", [[np.uint8([4])]], default_value=2).samples[0].tolist() == [2]


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
        ("lookup_table", [FILM], {"keys": [1], "values": [1, 2]}, "same length, got 1 and 2"),
        ("lookup_table", [FILM], {"keys": [-1], "values": [1]}, "0 to 65535, got -1"),
        ("lookup_table", [[np.float32(1)]], {}, "Unsupported input type FLOAT (input 0, keys); supported types are: UINT8"),
        ("one_hot", [FILM], {"axis": 3}, "-1 to 2 for 2-D samples, got 3"),
        ("one_hot", [FILM], {"axis_name": "AB"}, "single character, got 'AB'"),
        ("one_hot", [FILM], {"num_classes": -1}, "must not be negative, got -1"),
        ("one_hot", [FILM], {"dtype": types.STRING}, "STRING is not supported"),
        ("zeros", [], {"shape": [-1], "count": 1}, "must not be negative, got [-1]"),
        ("ones", [], {"shape": [1], "layout": "HW", "count": 1}, "2 letters for 1 dimensions"),
        ("zeros_like", [FILM], {"dtype": types.STRING}, "STRING has no elements"),
        ("full", [FILM], {"shape": [3, 2]}, "data of shape (2, 3) cannot be broadcast to shape (3, 2)"),
        ("full", [FILM], {}, "cannot be broadcast to shape ()"),
        ("full_like", [FILM, [np.zeros(2)]], {}, "cannot be broadcast"),
        ("element_extract", [FILM], {"element_map": [0, 2]}, "frame 2 of a sequence of 2"),
        ("element_extract", [FILM], {"element_map": [-2]}, "must not be negative, got -2"),
        ("element_extract", [[np.zeros(3)]], {"element_map": [0]}, "has 1 dimensions; supported are: 2 or more"),
        ("per_frame", [[np.float32(1)]], {}, "has 0 dimensions; supported are: 1 or more"),
        ("shapes", [FILM], {"dtype": types.UINT8}, "must be one of INT32"),
    ],
)
def test_errors_say_what_was_given(name, inputs, arguments, message):
    result = ours(name, inputs, **arguments)
    assert isinstance(result, Failed) and message in result.message, result


def test_layouts_that_are_no_sequence():
    assert 'layout "HW" does not match any of the allowed layouts' in ours("element_extract", [FILM], ["HW"], element_map=[0]).message
    assert "`replace=True`" in ours("per_frame", [FILM], ["HW"]).message
    assert ours("per_frame", [FILM], ["HW"], replace=True).layout == "FW"
