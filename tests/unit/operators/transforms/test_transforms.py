"""transforms.*: products, values known while planning, and wrong arguments."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.pipelines import pipeline_of
from helpers.tensor_parity import Failed, ours, plan

from asyncdali import fn, types

M = np.float32([[1, 2, 3], [4, 5, 6]])


def applied(matrix, point):
    return matrix[:, :-1] @ np.float32(point) + matrix[:, -1]


def test_a_chain_in_a_pipeline():
    def graph():
        angle = fn.random.uniform(range=[0, 90], seed=2)
        turn = fn.transforms.rotation(fn.transforms.translation(offset=[1, 2]), angle=angle, center=[5, 5])
        both = fn.transforms.combine(turn, fn.transforms.scale(scale=[2, 3]))
        return turn, both, angle

    pipe = pipeline_of(graph)
    with pipe:
        turn, both, angle = pipe.run()
    for i in range(3):
        radians = np.deg2rad(np.asarray(angle[i]))
        x, y = np.add([3, 4], (1, 2)) - 5
        expected = [np.cos(radians) * x - np.sin(radians) * y + 5, np.sin(radians) * x + np.cos(radians) * y + 5]
        np.testing.assert_allclose(applied(np.asarray(turn[i]), [3, 4]), expected, rtol=1e-5)
        np.testing.assert_allclose(applied(np.asarray(both[i]), [3, 4]), np.array(expected) * (2, 3), rtol=1e-5)


def test_the_order_of_products():
    first = ours("transforms.translation", [[M]], offset=[1, 2]).samples[0]
    np.testing.assert_array_equal(first, M + np.float32([[0, 0, 1], [0, 0, 2]]))
    last = ours("transforms.translation", [[M]], offset=[1, 2], reverse_order=True).samples[0]
    np.testing.assert_array_equal(applied(last, [3, 4]), applied(M, [4, 6]))


def test_known_while_planning():
    assert plan("transforms.crop", [], {}, {"from_end": [2.0, 4.0]}, 3).outputs[0].values.tolist() == [[[0.5, 0, 0], [0, 0.25, 0]]] * 3


def test_a_rotation_about_an_axis_of_any_length():
    turned = ours("transforms.rotation", [], count=1, angle=90.0, axis=[0, 0, 5]).samples[0]
    np.testing.assert_allclose(applied(turned, [1, 0, 7]), [0, 1, 7], atol=1e-6)


def test_empty_batches():
    def graph():
        x = fn.external_source(lambda: [][:], ndim=2, dtype=types.FLOAT)
        return fn.transforms.translation(x, offset=[1, 2]), fn.transforms.combine(x, x), fn.transforms.shear(x, shear=[1, 2])

    pipe = pipeline_of(graph)
    with pipe:
        assert [len(output) for output in pipe.run()] == [0] * 3


@pytest.mark.parametrize(
    "name, inputs, arguments, message",
    [
        ("translation", [[M]], {"offset": [1, 2, 3]}, "2-D transform, the arguments are for 3 dimensions"),
        ("translation", [[M.astype(np.float64)]], {"offset": [1, 2]}, "supported types are: FLOAT"),
        ("translation", [[M[:, :2]]], {"offset": [1, 2]}, "one shape (n, n + 1), got (2, 2)"),
        ("rotation", [], {"angle": 1.0, "axis": [0, 0, 0], "count": 1}, "no direction"),
        ("rotation", [], {"angle": 1.0, "center": [1, 2, 3], "count": 1}, "'center' expects 2 values, got 3"),
        ("shear", [], {"count": 1}, "exactly one of"),
        ("shear", [], {"shear": [1, 2, 3], "count": 1}, "must have 2 numbers (two dimensions) or 6 (three), got 3"),
        ("combine", [[M], [np.float32([[1, 2]])]], {}, "input 0 has (2, 3), input 1 (1, 2)"),
    ],
)
def test_errors_say_what_was_given(name, inputs, arguments, message):
    result = ours(f"transforms.{name}", inputs, **arguments)
    assert isinstance(result, Failed) and message in result.message, result
