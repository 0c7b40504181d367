"""reductions.* and normalize: pipelines, exact integers, empty inputs, and errors."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import operators as harness
from helpers.marks import slow
from helpers.pipelines import pipeline_of
from helpers.tensor_parity import Failed, ours

from asyncdali import fn, types

RNG = np.random.default_rng(11)
PICTURES = [RNG.integers(0, 256, (20 + k, 30, 3), np.uint8) for k in range(3)]


def nothing():
    """An empty batch."""
    return []


@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_statistics_in_a_pipeline(device):
    def graph():
        x = fn.external_source(lambda: PICTURES, layout="HWC")
        x = x.gpu() if device == "gpu" else x
        mean = fn.reductions.mean(x, axis_names="HW")
        deviation = fn.reductions.std_dev(x, mean, axis_names="HW")
        return mean, deviation, fn.reductions.max(x), fn.reductions.sum(x, axes=[-1], keep_dims=True), fn.normalize(x, axes=[0, 1])

    pipe = pipeline_of(graph)
    with pipe:
        outputs = [output.as_cpu() for output in pipe.run()]
    assert [output.layout() for output in outputs] == ["C", "C", "", "HWC", "HWC"]
    for i, picture in enumerate(PICTURES):
        mean, deviation, largest, total, normal = (np.asarray(output[i]) for output in outputs)
        wide = picture.astype(np.float64)
        np.testing.assert_allclose(mean, wide.mean((0, 1)), rtol=1e-5)
        np.testing.assert_allclose(deviation, wide.std((0, 1)), rtol=1e-5)
        assert largest == picture.max()
        np.testing.assert_array_equal(total, picture.sum(-1, keepdims=True, dtype=np.uint64))
        np.testing.assert_allclose(normal, (wide - wide.mean((0, 1))) / wide.std((0, 1)), atol=1e-4)


def test_normalize_over_the_batch_and_with_computed_parameters():
    def graph():
        x = fn.external_source(lambda: PICTURES, layout="HWC")
        mean = fn.reductions.mean(x, axes=[0, 1], keep_dims=True)
        return fn.normalize(fn.flip(x), batch=True, axis_names="HW"), fn.normalize(x, mean=mean, stddev=2.0, dtype=types.INT16)

    pipe = pipeline_of(graph)
    with pipe:
        for _ in range(2):
            whole, single = pipe.run()
    pixels = np.concatenate([picture.reshape(-1, 3) for picture in PICTURES]).astype(np.float64)
    for i, picture in enumerate(PICTURES):
        np.testing.assert_allclose(np.asarray(whole[i]), (picture[:, ::-1] - pixels.mean(0)) / pixels.std(0), atol=1e-4)
        expected = (picture - picture.mean((0, 1))) / 2
        assert np.abs(np.asarray(single[i]) - expected).max() <= 0.5001


def test_results_are_argument_inputs():
    def graph():
        x = fn.external_source(lambda: PICTURES, layout="HWC")
        return fn.random.normal(mean=fn.reductions.mean(x), stddev=0.0)

    pipe = pipeline_of(graph)
    with pipe:
        drawn = pipe.run()[0].as_array()
    np.testing.assert_allclose(drawn, [picture.mean() for picture in PICTURES], rtol=1e-5)


RARE = [pytest.param(name, marks=pytest.mark.slow) for name in ("uint32", "int64", "uint64")]


@pytest.mark.parametrize("dtype", ["uint8", "int16", *RARE])
def test_integers_are_exact(dtype):
    info = np.iinfo(dtype)
    sample = RNG.integers(info.min // 100, info.max // 100, (5, 7, 6), dtype)
    np.testing.assert_array_equal(ours("reductions.sum", [[sample]], axes=[0, 2]).samples[0], sample.sum((0, 2)))
    for name in ("min", "max"):
        np.testing.assert_array_equal(ours(f"reductions.{name}", [[sample]], axes=[1]).samples[0], getattr(sample, name)(1))


@pytest.mark.slow
def test_integer_means_do_not_overflow():
    sample = np.full((40, 40), 200, np.uint8)
    assert ours("reductions.mean", [[sample]], dtype=types.UINT8).samples[0] == 200
    assert ours("reductions.rms", [[sample]], dtype=types.UINT8).samples[0] == 200
    assert ours("reductions.mean", [[np.int8([-3, -4])]], dtype=types.INT8).samples[0] == -3  # the fraction is dropped


@pytest.mark.slow
def test_squares_do_not_overflow():
    assert ours("reductions.rms", [[np.full(9, 65535, np.uint16)]]).samples[0] == 65535


def test_many_axes():
    sample = RNG.integers(0, 9, (2, 3, 1, 2, 3, 2, 1, 3, 2), np.int32)
    axes = (0, 2, 3, 5, 8)
    np.testing.assert_array_equal(ours("reductions.sum", [[sample]], axes=list(axes)).samples[0], sample.sum(axes))
    np.testing.assert_allclose(ours("reductions.mean", [[sample]], axes=list(axes)).samples[0], sample.mean(axes), rtol=1e-6)


def test_without_elements():
    sample = np.zeros((0, 3), np.float32)
    assert ours("reductions.sum", [[sample]]).samples[0] == 0
    assert np.isnan(ours("reductions.mean", [[sample]], axes=[0]).samples[0]).all()
    assert ours("reductions.sum", [[sample]], axes=[1]).samples[0].shape == (0,)
    assert ours("normalize", [[sample, sample]]).samples[0].shape == (0, 3)


def test_deviations_of_zero():
    same = np.full((2, 3), 5, np.uint8)
    assert (ours("normalize", [[same]], shift=2).samples[0] == 2).all()
    assert (ours("normalize", [[same]], stddev=0.0).samples[0] == 0).all()
    assert (ours("normalize", [[same]], ddof=6, epsilon=1.0).samples[0] == 0).all()
    assert ours("normalize", [[np.float32(7)]], shift=1).samples[0] == 1


@pytest.mark.slow
def test_normalize_of_other_types():
    sample = RNG.integers(-(2**40), 2**40, (5, 7))
    expected = (sample - sample.mean(1, keepdims=True)) / sample.std(1, keepdims=True)
    for dtype in (types.FLOAT16, types.FLOAT64):
        np.testing.assert_allclose(ours("normalize", [[sample]], axes=[-1], dtype=dtype).samples[0], expected, atol=2e-3)


def test_empty_batches():
    def graph():
        x = fn.external_source(nothing, ndim=2, dtype=types.FLOAT)
        return fn.reductions.sum(x), fn.reductions.variance(x, x), fn.reductions.min(x), fn.normalize(x), fn.normalize(x, batch=True)

    pipe = pipeline_of(graph)
    with pipe:
        assert [len(output) for output in pipe.run()] == [0] * 5


SAMPLE = [np.zeros((2, 3), np.uint8)]


@pytest.mark.parametrize(
    "name, inputs, arguments, message",
    [
        ("reductions.sum", [SAMPLE], {"axes": [2]}, "axis 2 is out of range for 2-D samples; allowed are -2 to 1"),
        ("reductions.sum", [SAMPLE], {"axes": [0, 0]}, "more than once in the axes [0, 0]"),
        ("reductions.sum", [SAMPLE], {"axes": [0], "axis_names": "H"}, "mutually exclusive"),
        ("reductions.sum", [SAMPLE], {"axis_names": "X"}, "names the axis 'X'"),
        (
            "reductions.sum",
            [SAMPLE],
            {"dtype": types.INT32},
            "INT32 is not supported for an input of type UINT8; UINT8 and UINT64 and FLOAT are",
        ),
        ("reductions.max", [[np.zeros(3)]], {}, "Unsupported input type FLOAT64"),
        (
            "reductions.variance",
            [SAMPLE, [np.zeros(2, np.float32)]],
            {"axes": [0]},
            "3 means are needed, or one for all; input 1 has shape (2,)",
        ),
        ("reductions.std_dev", [SAMPLE, [np.zeros(2)]], {}, "FLOAT64 (input 1, means); supported types are: FLOAT"),
        ("normalize", [SAMPLE], {"axes": []}, "at least one axis"),
        ("normalize", [SAMPLE], {"axes": [0], "mean": 1.0, "stddev": 1.0}, "cannot be given if both"),
        ("normalize", [SAMPLE], {"dtype": types.BOOL}, "BOOL is not supported"),
        ("normalize", [[np.zeros(3)]], {}, "Unsupported input type FLOAT64"),
        (
            "normalize",
            [[np.zeros((2, 3), np.uint8), np.zeros((3, 3), np.uint8)]],
            {"batch": True, "axes": [1]},
            "(3, 3) and (2, 3) in sample 0",
        ),
    ],
)
def test_errors_say_what_was_given(name, inputs, arguments, message):
    result = ours(name, inputs, ["HW", ""][: len(inputs)] if inputs[0][0].ndim == 2 else None, **arguments)
    assert isinstance(result, Failed) and message in result.message, result


def test_axes_that_do_not_exist_are_index_errors():
    """As in DALI; ours is also a ValueError, as for other wrong values."""
    data = np.zeros((2, 3), np.float32)
    for call in (lambda: fn.reductions.sum(data, axes=[2]), lambda: fn.tensor_resize(data, sizes=[1], axes=[-3])):
        with pipeline_of(call) as pipe, pytest.raises(IndexError, match="is out of range for 2-D samples") as caught:
            pipe.run()
        assert isinstance(caught.value, ValueError)


def test_parameters_of_the_wrong_shape():
    mean = {"mean": [np.zeros((2, 1), np.float32)]}
    assert "must have shape (1, 3) for a sample of shape (2, 3)" in ours("normalize", [SAMPLE], named=mean, axes=[0]).message
    assert "cannot be combined with `mean`" in ours("normalize", [SAMPLE], named=mean, batch=True).message


@pytest.mark.parametrize("kind", [np.int64, np.uint64, np.int32, np.uint32])
@pytest.mark.parametrize("dtype", [types.FLOAT, None])
@pytest.mark.parametrize("shape, axes", [((6,), None), ((2, 3), [1]), ((2, 3, 1), [0, 2]), *slow(((3, 2), [0]), ((6, 1), [1]))])
def test_squares_beyond_64_bits(kind, dtype, shape, axes):
    """The squares of numbers above 3e9 do not fit into 64 bits, and neither do the sums of squares of 32-bit numbers."""
    largest = np.iinfo(kind).max // (4 if kind is np.uint64 and dtype == types.FLOAT else 1)  # the sum must fit into FLOAT
    numbers = [largest, largest - 1, largest // 2, 3, largest // 3, 1]
    if np.iinfo(kind).min:
        numbers[1] = np.iinfo(kind).min
    data = np.array(numbers, kind).reshape(shape)
    wanted = dtype or (types.UINT64 if kind in (np.uint64, np.uint32) else types.INT64)
    over = {} if axes is None else {"axes": axes}
    exact = np.mean(np.square(data.astype(np.float64)), axis=None if axes is None else tuple(axes))
    (squares,) = harness.run("reductions.mean_square", [data], dtype=wanted, **over)
    (roots,) = harness.run("reductions.rms", [data], dtype=wanted, **over)
    np.testing.assert_allclose(roots.astype(np.float64), np.sqrt(exact), rtol=1e-6)
    if wanted != types.FLOAT:
        exact = np.minimum(exact, float(np.iinfo(squares.dtype).max))
    np.testing.assert_allclose(squares.astype(np.float64), exact, rtol=1e-6)
