"""numba_function: functions that Numba compiles, as operators."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from helpers.pipelines import pipeline_of, values

from asyncdali import fn, types
from asyncdali.plugin.numba.fn.experimental import numba_function

DATA = [np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((1, 2), np.float32)]


def source():
    return fn.external_source(lambda k: [sample + k for sample in DATA])


def transpose(out, a):
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            out[j, i] = a[i, j] * 2


def transposed(outs, ins):
    for sample in range(len(outs[0])):
        outs[0][sample][0] = ins[0][sample][1]
        outs[0][sample][1] = ins[0][sample][0]


def same(ndim=2, count=1, dtype=types.FLOAT, outputs=None):
    outputs = count if outputs is None else outputs
    return {"in_types": [dtype] * count, "out_types": [dtype] * outputs, "ins_ndim": [ndim] * count, "outs_ndim": [ndim] * outputs}


@pytest.mark.parametrize("jit", [False, True])
def test_shapes_from_setup(jit):
    run, setup = (numba.njit(transpose), numba.njit(transposed)) if jit else (transpose, transposed)
    pipe = pipeline_of(lambda: numba_function(source(), run_fn=run, setup_fn=setup, **same()), batch_size=2)
    for k in range(3):
        assert values(pipe.run())[0] == [((sample + k).T * 2).tolist() for sample in DATA]


@pytest.mark.slow
def test_several_arrays_of_several_kinds():
    def run(total, scaled, a, b):
        total[0] = 0
        for i in range(a.shape[0]):
            for j in range(a.shape[1]):
                total[0] += a[i, j] * b[0]
                scaled[i, j] = np.uint8(a[i, j])

    def setup(outs, ins):
        for k in range(len(outs[0])):
            outs[0][k][0] = 1
            outs[1][k][:] = ins[0][k]

    pipe = pipeline_of(lambda: tuple(numba_function(
        source(), fn.external_source(lambda: np.int32([[2], [3]])), run_fn=run, setup_fn=setup, in_types=[types.FLOAT, types.INT32],
        ins_ndim=[2, 1], out_types=[types.FLOAT64, types.UINT8], outs_ndim=[1, 2])), batch_size=2)  # fmt: skip
    assert values(pipe.run()) == [[[30.0], [6.0]], [[[0, 1, 2], [3, 4, 5]], [[1, 1]]]]


@pytest.mark.slow
def test_whole_batches():
    def run(out, a):
        for k in range(len(a)):
            out[k][:] = a[k] + a[0][0, 1]

    pipe = pipeline_of(lambda: numba_function(source(), run_fn=run, batch_processing=True, **same()), batch_size=2)
    pipe.run()
    assert values(pipe.run())[0] == [(DATA[0] + 3).tolist(), (DATA[1] + 3).tolist()]


def test_whole_batches_wait_for_the_producers_pixels():
    """A function over a whole batch runs after the pixels of its input are computed."""

    def run(out, a):
        for k in range(len(a)):
            for row in range(a[k].shape[0]):
                for column in range(a[k].shape[1]):
                    out[k][row, column] = a[k][row, column] + a[0][0, 0]

    pipe = pipeline_of(lambda: numba_function(source() * 2 + 1, run_fn=run, batch_processing=True, **same()), batch_size=2)
    pipe.run()
    assert values(pipe.run())[0] == [(sample * 2 + 6).tolist() for sample in DATA]


def test_an_exception_names_the_sample():
    def run(out, a):
        if a.shape[0] == 1:
            raise ValueError("short")
        out[0, 0] = a[0, 0]

    pipe = pipeline_of(lambda: numba_function(source(), run_fn=run, **same()), batch_size=2)
    with pytest.raises(RuntimeError, match=r"(?s)iteration 0, sample 1.*run_fn.*exception"):
        pipe.run()


def test_a_setup_that_writes_elsewhere():
    """A setup function that writes outside of its arrays is refused. In DALI it writes into foreign memory."""

    def setup(outs, ins):
        for k in range(len(outs[0])):
            outs[0][k][5] = 1

    pipe = pipeline_of(lambda: numba_function(source(), run_fn=transpose, setup_fn=setup, **same()), batch_size=2)
    with pytest.raises(RuntimeError, match=r"`setup_fn` raised IndexError: .*out of bounds"):
        pipe.run()


@pytest.mark.slow
def test_an_exception_in_a_whole_batch():
    def run(out, a):
        raise ValueError("no")

    pipe = pipeline_of(lambda: numba_function(source(), run_fn=run, batch_processing=True, **same()), batch_size=2)
    with pytest.raises(RuntimeError, match=r"`run_fn` raised ValueError: no"):
        pipe.run()


def test_declarations():
    run = lambda out, a: None  # noqa: E731
    for wrong, words in (
        ({"outs_ndim": [1]}, "without `setup_fn`"), ({"ins_ndim": [2, 2]}, "in_types"),
        ({"in_types": [types.FLOAT] * 2, "ins_ndim": [2] * 2}, "1 inputs"),
        ({"in_types": [types.FLOAT16], "out_types": [types.FLOAT16]}, "`in_types`: functions compiled by Numba .*FLOAT16"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=words):
            pipeline_of(lambda wrong=wrong: numba_function(source(), run_fn=run, **{**same(), **wrong}), batch_size=2).build()
    with pytest.raises(TypeError, match=r"run_fn"):
        pipeline_of(lambda: numba_function(source(), run_fn=5, **same()), batch_size=2).build()
    pipe = pipeline_of(lambda: numba_function(source(), run_fn=run, **same(dtype=types.INT32)), batch_size=2)
    with pytest.raises(ValueError, match=r"FLOAT .*declared by `in_types`.*supported types are: INT32"):
        pipe.run()
    with pytest.raises(RuntimeError, match=r"Could not serialize"):
        pipeline_of(lambda: numba_function(source(), run_fn=run, **same()), batch_size=2).serialize()


@pytest.mark.parametrize("whole", [False, True])
def test_a_setup_function_that_numba_cannot_type_is_refused_in_build(whole):
    from numba import TypingError

    def setup(outputs, inputs):
        outputs[0][0][0] = unknown_name  # noqa: F821

    def body():
        data = fn.external_source(lambda: [np.ones(3, np.float32)] * 2)
        kinds = {"in_types": [types.FLOAT], "out_types": [types.FLOAT], "ins_ndim": [1], "outs_ndim": [1]}
        return numba_function(data, run_fn=lambda out, given: None, setup_fn=setup, batch_processing=whole, **kinds)

    pipe = pipeline_of(body, batch_size=2)
    with pytest.raises(TypingError, match="unknown_name") as caught:
        pipe.build()
    assert isinstance(caught.value, RuntimeError) and "setup_fn" in str(caught.value)
