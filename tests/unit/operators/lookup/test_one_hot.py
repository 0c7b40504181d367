"""one_hot: vectors of classes, axes, and refusals."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.pipelines import pipeline_of
from helpers.tensor_parity import Failed, ours

from asyncdali import fn, types

FILM = [np.zeros((2, 3), np.uint8)]


def test_classes_on_the_gpu_side():
    labels = [np.array([0, 2, 1], np.int32), np.array([5, 3], np.int32), np.array([], np.int32)]

    def graph():
        return fn.one_hot(fn.external_source(lambda: labels, layout="X").gpu(), num_classes=4, axis_name="C", dtype=types.UINT8)

    with pipeline_of(graph) as pipe:
        [vectors] = pipe.run()
        assert vectors.layout() == "XC"
        for row, label in zip(vectors.as_cpu(), labels, strict=True):
            np.testing.assert_array_equal(np.asarray(row), np.eye(6, 4, dtype=np.uint8)[label] if len(label) else np.zeros((0, 4)))


def test_numbers_that_are_no_class():
    for dtype, extreme in (("int8", -128), ("int64", -(2**63)), ("uint64", 2**64 - 1), ("int32", 2**31 - 1)):
        assert ours("one_hot", [[np.array([extreme, 1], dtype)]], num_classes=2).samples[0].tolist() == [[0, 0], [0, 1]]
    assert ours("one_hot", [[np.array([np.nan, np.inf, -np.inf], np.float32)]], num_classes=1).samples[0].sum() == 0


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"axis": 3}, "-1 to 2 for 2-D samples, got 3"),
        ({"axis_name": "AB"}, "single character, got 'AB'"),
        ({"num_classes": -1}, "must not be negative, got -1"),
        ({"dtype": types.STRING}, "STRING is not supported"),
    ],
)
def test_errors_say_what_was_given(arguments, message):
    result = ours("one_hot", [FILM], **arguments)
    assert isinstance(result, Failed) and message in result.message, result
