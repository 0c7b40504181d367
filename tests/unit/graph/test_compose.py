"""`ops.Compose`, and input sets of operators with many inputs."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.pipelines import pipeline_of

from asyncdali import fn, ops, types

PICTURES = [np.random.default_rng(k).integers(0, 255, (4, 5 + k, 3), np.uint8) for k in range(3)]


def run(graph):
    pipe = pipeline_of(lambda: graph(fn.external_source(lambda: PICTURES, layout="HWC")))
    with pipe:
        return [output.as_cpu() for output in pipe.run()]


def test_operators_in_a_row():
    (result,) = run(lambda x: ops.Compose([ops.Flip(), ops.Cast(dtype=types.FLOAT)])(x))
    for got, picture in zip(result, PICTURES):
        np.testing.assert_array_equal(np.asarray(got), picture[:, ::-1].astype(np.float32))


def test_nested_several_inputs_and_outputs():
    pieces = ops.Compose([ops.PerFrame(replace=True), ops.ElementExtract(element_map=[1, 0])])
    (result,) = run(lambda x: ops.Compose([pieces, ops.Stack(axis=0)])(x))
    for got, picture in zip(result, PICTURES):
        np.testing.assert_array_equal(np.asarray(got), picture[[1, 0]])
    (joined,) = run(lambda x: ops.Compose([ops.Cat(axis=1), fn.flip])(x, x))
    np.testing.assert_array_equal(np.asarray(joined[0]), np.concatenate([PICTURES[0]] * 2, 1)[:, ::-1])


def test_the_first_operator_takes_the_arguments_of_the_call():
    def graph(x):
        angle = fn.random.coin_flip(seed=3)
        return ops.Compose([ops.Flip(), ops.Cast(dtype=types.INT16)])(x, vertical=angle), angle

    flipped, vertical = run(graph)
    for got, picture, up in zip(flipped, PICTURES, vertical):
        np.testing.assert_array_equal(np.asarray(got), picture[:: -1 if np.asarray(up) else 1, ::-1])


def test_a_gpu_operator_gets_its_input_on_the_gpu():
    pipe = pipeline_of(lambda: ops.Compose([ops.Flip(), ops.Flip(device="gpu")])(fn.external_source(lambda: PICTURES, layout="HWC")))
    with pipe:
        (output,) = pipe.run()
        np.testing.assert_array_equal(np.asarray(output.as_cpu()[1]), PICTURES[1])
    assert type(output).__name__ == "TensorListGPU"


def test_input_sets():
    row = ops.Compose([ops.Flip(), ops.Cast(dtype=types.FLOAT)])
    first, second = run(lambda x: tuple(row([x, fn.flip(x)])))
    np.testing.assert_array_equal(np.asarray(second[0]), PICTURES[0].astype(np.float32))
    np.testing.assert_array_equal(np.asarray(first[0]), PICTURES[0][:, ::-1].astype(np.float32))


def test_one_set():
    (result,) = run(lambda x: ops.Compose([ops.PythonFunction(function=lambda a: (a, a), num_outputs=2), ops.Cat(axis=1)])([x]))
    np.testing.assert_array_equal(np.asarray(result[0]), np.concatenate([PICTURES[0], PICTURES[0]], 1))


def test_sets_of_joined_inputs():
    a, b = run(lambda x: tuple(fn.cat([x, fn.flip(x)], x, axis=1)))
    np.testing.assert_array_equal(np.asarray(a[0]), np.concatenate([PICTURES[0], PICTURES[0]], 1))
    np.testing.assert_array_equal(np.asarray(b[0]), np.concatenate([PICTURES[0][:, ::-1], PICTURES[0]], 1))


def test_without_operators():
    (result,) = run(lambda x: ops.Compose([])(x))
    np.testing.assert_array_equal(np.asarray(result[2]), PICTURES[2])
    with pytest.raises(TypeError, match="takes no arguments, got axis"):
        run(lambda x: ops.Compose([])(x, axis=1))


def test_compose_refuses_other_objects():
    with pytest.raises(TypeError, match="the list contains 3"):
        ops.Compose([ops.Flip(), 3])
