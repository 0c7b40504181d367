"""cat, stack, expand_dims, squeeze and reinterpret: pipelines, views instead of copies, empty inputs and errors."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.pipelines import pipeline_of, values
from helpers.tensor_parity import Failed, batch, ours, plan

from asyncdali import fn, types


def source(samples, layout=None):
    return fn.external_source(lambda: samples, layout=layout)


def nothing():
    """An empty batch."""
    return []


def test_in_a_pipeline_on_both_devices():
    a = [np.arange(6, dtype=np.uint8).reshape(2, 3), np.arange(3, dtype=np.uint8).reshape(1, 3), np.zeros((0, 3), np.uint8)]

    def graph():
        x = source(a, "HW")
        moved = x.gpu()
        return fn.cat(x, x, axis=-1), fn.stack(moved, moved, axis_name="C", axis=2), fn.squeeze(fn.expand_dims(x, axes=[0]), axes=[0])

    pipe = pipeline_of(graph)
    with pipe:
        joined, stacked, same = pipe.run()
    for i, sample in enumerate(a):
        np.testing.assert_array_equal(np.asarray(joined[i]), np.concatenate([sample, sample], -1))
        np.testing.assert_array_equal(np.asarray(stacked.as_cpu()[i]), np.stack([sample, sample], -1))
        np.testing.assert_array_equal(np.asarray(same[i]), sample)
    assert joined.layout() == "HW" and stacked.layout() == "HWC"


def test_results_are_argument_inputs():
    def graph():
        size = fn.cat(fn.constant(idata=[2]), fn.constant(idata=[3]))
        angle = fn.squeeze(fn.expand_dims(fn.constant(fdata=[1.5]), axes=[0]), axes=[0])
        return fn.random.uniform(shape=size), fn.random.normal(mean=angle, stddev=0.0)

    pipe = pipeline_of(graph)
    with pipe:
        drawn, same = pipe.run()
    assert drawn.as_array().shape == (3, 2, 3)
    assert values([same]) == [[1.5] * 3]


def test_views_copy_nothing():
    data = batch([np.arange(8, dtype=np.uint8).reshape(1, 8)])
    for name, arguments in (("expand_dims", {"axes": [1]}), ("squeeze", {"axes": [0]}), ("reinterpret", {"dtype": types.INT32})):
        planned = plan(name, [data], {}, arguments)
        assert not planned.steps and planned.outputs[0].addresses[0] == data.addresses[0]


def test_values_known_while_planning_stay_known():
    from asyncdali.batch import Batch

    data = Batch.from_values(np.arange(8, dtype=np.float32).reshape(4, 2))
    assert plan("expand_dims", [data], {}, {"axes": [0]}).outputs[0].values.shape == (4, 1, 2)
    known = plan("reinterpret", [data], {}, {"dtype": types.FLOAT64}).outputs[0].values
    np.testing.assert_array_equal(known, data.values.view(np.float64))


def test_many_inputs_and_many_axes():
    rng = np.random.default_rng(1)
    parts = [[rng.integers(0, 99, (2, 1, 3, 1, 2, 3, 2, int(n)))] for n in rng.integers(0, 4, 30)]
    np.testing.assert_array_equal(ours("cat", parts, axis=-1).samples[0], np.concatenate([part[0] for part in parts], -1))
    parts = [[rng.integers(0, 99, (2, 1, 3, 1, 2, 3, 2))] for _ in range(30)]
    for axis in range(8):
        np.testing.assert_array_equal(ours("stack", parts, axis=axis).samples[0], np.stack([part[0] for part in parts], axis))


def test_extents_add_up_without_elements():
    assert ours("cat", [[np.zeros((0, 6))], [np.zeros((0, 1))]], axis=1).samples[0].shape == (0, 7)


@pytest.mark.parametrize("empty", [(0, 3), (2, 0), (0, 0), (5, 0)])
def test_inputs_without_elements_that_do_not_fit_are_left_out(empty):
    data, nothing_of_it = [np.ones((2, 3), np.uint8), np.full((1, 3), 2, np.uint8)], [np.zeros(empty, np.uint8)] * 2
    for inputs, copies in (([nothing_of_it, data], 1), ([data, nothing_of_it, data], 2), ([nothing_of_it, nothing_of_it, data], 1)):
        for axis in (0, 1):
            joined = ours("cat", inputs, axis=axis)
            for sample, whole in zip(joined.samples, data, strict=True):
                np.testing.assert_array_equal(sample, np.concatenate([whole] * copies, axis))


def test_an_input_with_elements_in_some_samples_must_fit():
    partly = [np.zeros((0, 5), np.uint8), np.zeros((1, 5), np.uint8)]
    result = ours("cat", [[np.zeros((0, 9), np.uint8)] * 2, [np.ones((2, 3), np.uint8)] * 2, partly], axis=0)
    assert "along axis 0 only; input 1 has shape (2, 3), input 2 (0, 5)" in result.message


def test_squeeze_axes_from_the_back_and_per_sample():
    samples = [np.zeros((1, 3, 1), np.uint8)] * 2
    assert [sample.shape for sample in ours("squeeze", [samples], ["HWC"], axes=[-1]).samples] == [(1, 3)] * 2
    result = ours("squeeze", [samples], ["HWC"], {"axes": [np.array([0]), np.array([-1])]})
    assert [sample.shape for sample in result.samples] == [(3, 1), (1, 3)] and result.layout == ""


def test_scalars_can_be_reinterpreted():
    assert ours("reinterpret", [[np.float32(1)]], dtype=types.INT32).samples[0] == 0x3F800000


def test_empty_batches():
    def graph():
        x = fn.external_source(nothing, ndim=1, dtype=types.UINT8)
        return fn.cat(x, x), fn.stack(x, x), fn.expand_dims(x, axes=0), fn.squeeze(x, axes=[0]), fn.reinterpret(x, dtype=types.INT8)

    pipe = pipeline_of(graph)
    with pipe:
        assert [len(output) for output in pipe.run()] == [0] * 5


@pytest.mark.parametrize(
    "name, inputs, arguments, message",
    [
        ("cat", 2, {"axis": 2}, "axis 2 is out of range for 2-D samples; allowed are -2 to 1"),
        ("cat", 2, {"axis": 0, "axis_name": "H"}, "cannot be used together"),
        ("cat", 2, {"axis_name": "HW"}, "must be a single character, got 'HW'"),
        ("cat", 2, {"axis_name": "X"}, "`axis_name` 'X' is not in the layout"),
        ("stack", 2, {"axis": 3}, "allowed are -2 to 2"),
        ("expand_dims", 1, {"axes": [0, 0]}, "more than once"),
        ("expand_dims", 1, {"axes": [4]}, "beyond the 3 dimensions"),
        ("expand_dims", 1, {"axes": [0], "new_axis_names": "AB"}, "2 letters"),
        ("squeeze", 1, {"axes": [1]}, "extent 1"),
        ("squeeze", 1, {"axes": [2]}, "allowed are -2 to 1"),
        ("squeeze", 1, {}, "exactly one of"),
        ("squeeze", 1, {"axis_names": "X"}, "names the axis 'X'"),
        ("reinterpret", 1, {"dtype": types.INT64}, "no multiple of 8"),
        ("reinterpret", 1, {"dtype": types.STRING}, "no elements of a fixed size"),
        ("reinterpret", 1, {"dtype": types.INT8, "shape": [2]}, "volumes differ"),
        ("reinterpret", 1, {}, "reinterpret needs a shape"),
    ],
)
def test_errors_say_what_was_given(name, inputs, arguments, message):
    result = ours(name, [[np.zeros((1, 3), np.uint8)]] * inputs, ["HW"] * inputs, **arguments)
    assert isinstance(result, Failed) and message in result.message, result


def test_inputs_that_do_not_fit():
    a, b = [np.zeros((1, 3), np.uint8)] * 2, [np.zeros((1, 3), np.uint8), np.zeros((1, 4), np.uint8)]
    assert "input 0 has shape (1, 3), input 1 (1, 4)" in ours("cat", [a, b]).message
    assert "All inputs must have the same shape. Input 0 has (1, 3), input 1 (1, 4)" in ours("stack", [a, b]).message
    assert "same type. Input 0 has UINT8, input 1 (data) has INT32" in ours("stack", [a, [sample.astype(np.int32) for sample in a]]).message
