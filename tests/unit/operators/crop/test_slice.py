"""slice and pad: pipelines, limits, and errors."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import kernels
from helpers.operators import run
from helpers.pipelines import pipeline_of
from helpers.tensor_parity import ALL_TYPES, Failed, ours, random_array
from helpers.twins import outputs_of

from asyncdali import fn, types

RAGGED = [np.arange(12, dtype=np.uint8).reshape(3, 4), np.arange(10, dtype=np.uint8).reshape(2, 5)]


def nothing():
    """An empty batch."""
    return []


def test_in_a_pipeline_on_both_devices():
    def graph():
        x = fn.external_source(lambda: RAGGED, layout="HW")
        start = fn.random.uniform(range=[0, 0.4], shape=[2])
        size = fn.constant(fdata=[0.5, 0.5])
        return (
            fn.slice(x, start, size, axes=[0, 1]),
            fn.slice(x.gpu(), rel_start=start, rel_shape=[0.5, 0.5], axis_names="HW"),
            fn.pad(x.gpu(), align=[4], fill_value=7),
            start,
        )

    pipe = pipeline_of(graph, batch_size=2)
    with pipe:
        by_position, by_name, padded, start = pipe.run()
    for i, sample in enumerate(RAGGED):
        shape = np.array(sample.shape)
        begin = np.floor(np.asarray(start[i]) * shape + 0.5).astype(int)
        end = np.floor((np.asarray(start[i], np.float64) + 0.5) * shape + 0.5).astype(int)
        expected = sample[begin[0] : end[0], begin[1] : end[1]]
        np.testing.assert_array_equal(np.asarray(by_position[i]), expected)
        np.testing.assert_array_equal(np.asarray(by_name.as_cpu()[i]), expected)
        want = np.full((4, 8), 7, np.uint8)
        want[: shape[0], : shape[1]] = sample
        np.testing.assert_array_equal(np.asarray(padded.as_cpu()[i]), want)


@pytest.mark.parametrize("dtype", ALL_TYPES)
def test_every_type(dtype):
    sample = random_array(np.random.default_rng(3), (4, 5, 3), dtype)
    inside = ours("slice", [[sample]], axes=[0, 2], start=[1, 1], shape=[2, 2]).samples[0]
    np.testing.assert_array_equal(inside, sample[1:3, :, 1:])
    expected = np.full((6, 5, 3), 1, dtype)
    expected[:4] = sample
    np.testing.assert_array_equal(ours("pad", [[sample]], axes=[0], shape=[6], fill_value=1).samples[0], expected)


def test_dimensions_beyond_those_of_pictures():
    sample = np.random.default_rng(4).integers(0, 255, (3, 2, 4, 2, 3, 5), np.uint8)
    result = ours("slice", [[sample]], axes=[0, 2, 5], start=[-1, 1, 2], shape=[5, 2, 9], out_of_bounds_policy="pad", fill_values=9)
    padded = np.pad(sample, [(1, 1), (0, 0), (0, 0), (0, 0), (0, 0), (0, 6)], constant_values=9)
    np.testing.assert_array_equal(result.samples[0], padded[:, :, 1:3, :, :, 2:])
    wrapped = ours("slice", [[sample]], axes=[0, 5], start=[-2, 3], shape=[7, 4], out_of_bounds_policy="wrap").samples[0]
    np.testing.assert_array_equal(wrapped, np.pad(sample, [(2, 2), *[(0, 0)] * 4, (0, 2)], mode="wrap")[..., 3:])


def test_scalars_are_padded_and_sliced_by_no_axis():
    np.testing.assert_array_equal(ours("pad", [[np.float32(3)]]).samples[0], np.float32(3))
    np.testing.assert_array_equal(ours("slice", [[np.float32(3)]], axes=[], start=[], shape=[]).samples[0], np.float32(3))


def test_fill_values_are_converted_as_in_c():
    for dtype, value, expected in (
        ("uint8", 300.7, 44),
        ("uint8", -1.0, 255),
        ("int8", -1.9, -1),
        ("uint64", 2.0**63, 2**63),
        ("bool", 0.1, True),
    ):
        assert ours("pad", [[np.zeros(1, dtype)]], shape=[2], fill_value=value).samples[0][1] == expected


def test_fill_values_per_channel():
    sample = np.full((2, 2, 3), 900, np.int16)
    policy = {"axes": [0], "out_of_bounds_policy": "pad", "fill_values": [1, 2, 3], "dtype": types.UINT8}
    result = ours("slice", [[sample]], ["HWC"], start=[-1], shape=[2], **policy).samples[0]
    assert result.tolist() == [[[1, 2, 3]] * 2, [[255] * 3] * 2]
    assert ours("slice", [[sample]], ["XYZ"], start=[0], shape=[2], **policy).samples[0].shape == sample.shape  # nothing is filled


def test_windows_without_elements_and_far_away():
    policy = {"out_of_bounds_policy": "pad", "fill_values": [5.0]}
    far = ours("slice", [RAGGED], axes=[0, 1], start=[-9, 100], shape=[2, 2], **policy)
    assert all((sample == 5).all() and sample.shape == (2, 2) for sample in far.samples)
    nothing = ours("slice", [RAGGED], axes=[0, 1], start=[1, 1], shape=[0, 2], **policy)
    assert [sample.shape for sample in nothing.samples] == [(0, 2)] * 2
    assert [sample.shape for sample in ours("pad", [[np.zeros((0, 2)), np.zeros((3, 1))]]).samples] == [(3, 2)] * 2


def test_empty_batches():
    def graph():
        x = fn.external_source(nothing, ndim=2, dtype=types.UINT8)
        return fn.slice(x, axes=[0], start=[0], shape=[1]), fn.pad(x), fn.pad(x, axes=[0], shape=[3], align=[2])

    pipe = pipeline_of(graph)
    with pipe:
        assert [len(output) for output in pipe.run()] == [0] * 3


@pytest.mark.parametrize(
    "name, arguments, message",
    [
        ("slice", {}, "either two more inputs"),
        ("slice", {"axes": [0], "start": [2], "shape": [2]}, "leaves the input of shape (3, 4)"),
        ("slice", {"axes": [2], "start": [0]}, "out of range"),
        ("slice", {"axes": [0], "axis_names": "H", "start": [0]}, "mutually exclusive"),
        ("slice", {"axis_names": "X", "start": [0]}, "'X' is not present"),
        ("slice", {"start": [0, 0], "out_of_bounds_policy": "no"}, "'no' is unknown; supported are error, constant"),
        ("slice", {"start": [0, 0], "dtype": types.INT16}, "INT16 is not supported; the input's type (UINT8)"),
        ("slice", {"axes": [0], "start": [2], "end": [1]}, "before start"),
        ("slice", {"axes": [0], "end": [9], "out_of_bounds_policy": "pad", "fill_values": [1, 2]}, "no axis C in the layout 'HW'"),
        ("pad", {"axes": [0], "axis_names": "H"}, "mutually exclusive"),
        ("pad", {"axes": [3]}, "3 is out of range for 2-D samples; allowed are -2 to 1"),
        ("pad", {"axes": [1, -1]}, "more than once"),
        ("pad", {"align": [0, 1]}, "`align` must be positive, got [0, 1]"),
        ("pad", {"axis_names": "C"}, "'C', which the input's layout \"HW\" does not have"),
        ("pad", {"shape": [1, 2, 3]}, "argument 'shape' expects 2 values, got 3"),
    ],
)
def test_errors_say_what_was_given(name, arguments, message):
    result = ours(name, [RAGGED], ["HW"], **arguments)
    assert isinstance(result, Failed) and message in result.message, result


@pytest.mark.parametrize("dtype", [np.float16, np.bool_])
def test_flip_and_crop_take_all_types(dtype):
    samples = [np.random.default_rng(k).integers(0, 2, (4, 5 + k, 3)).astype(dtype) for k in range(3)]
    for mine, sample in zip(run("flip", samples, "HWC", vertical=1), samples, strict=True):
        np.testing.assert_array_equal(mine, sample[::-1, ::-1])
        assert mine.dtype == dtype
    for mine, sample in zip(run("crop", samples, "HWC", crop=[2.0, 3.0], crop_pos_x=0.0, crop_pos_y=0.0), samples, strict=True):
        np.testing.assert_array_equal(mine, sample[:2, :3])


@pytest.mark.parametrize("shape", [(0, 1, 1), (2, 0, 3), (0, 0, 2)])
@pytest.mark.parametrize("dtype", ["uint8", "float32", "float16"])
def test_windows_of_samples_without_elements_are_zeros(shape, dtype):
    """Beside a sample with elements. The memory of the outputs holds other bytes before."""
    samples = [np.ones((3, 4, shape[2]), dtype), np.zeros(shape, dtype)]
    for policy in ("clamp", "wrap", "reflect_101", "reflect_1001"):
        for target in ({}, {"dtype": types.FLOAT}):
            constants = {"start": [1, 1], "shape": [3, 2], "axes": [0, 1], "out_of_bounds_policy": policy, **target}
            for gpu in (False, *([True] if kernels.COMPILER else [])):
                (found,) = outputs_of("slice", [samples], "HWC", None, gpu, **constants)
                assert found[0].all() and not found[1].any(), (policy, target, gpu)
