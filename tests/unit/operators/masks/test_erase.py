"""erase: regions per sample, missing regions and layouts, empty batches, and errors."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.pipelines import pipeline_of
from helpers.tensor_parity import Failed, ours

from asyncdali import fn, types

PICTURES = [np.full((6, 8, 3), 9, np.uint8), np.full((4, 5, 3), 9, np.uint8)]


@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_regions_per_sample(device):
    def graph():
        x = fn.external_source(lambda: PICTURES, layout="HWC")
        x = x.gpu() if device == "gpu" else x
        anchor = fn.external_source(lambda: [np.float32([1, 2]), np.float32([0, 0, 3, 3])])
        shape = fn.external_source(lambda: [np.float32([2, 3]), np.float32([1, 1, 9, 9])])
        return fn.erase(x, anchor=anchor, shape=shape, axis_names="HW", fill_value=[1, 2, 3])

    pipe = pipeline_of(graph, batch_size=2)
    with pipe:
        (erased,) = pipe.run()
    expected = [picture.copy() for picture in PICTURES]
    expected[0][1:3, 2:5] = expected[1][:1, :1] = expected[1][3:, 3:] = (1, 2, 3)
    for got, want in zip(erased.as_cpu(), expected):
        np.testing.assert_array_equal(np.asarray(got), want)


def test_without_regions_or_layout():
    (same,) = ours("erase", [PICTURES[:1]]).samples
    np.testing.assert_array_equal(same, PICTURES[0])
    (corner,) = ours("erase", [PICTURES[:1]], shape=[1, 2]).samples
    assert (corner == 0).sum() == 6 and not corner[0, :2].any()
    assert ours("erase", [[np.ones(4)]], axes=[-1], anchor=[0.5], shape=[0.5], normalized=True).samples[0].tolist() == [1, 1, 0, 0]


def test_empty_batches():
    pipe = pipeline_of(lambda: fn.erase(fn.external_source(lambda: [][:], ndim=2, dtype=types.UINT8), anchor=[0, 0], shape=[1, 1]))
    with pipe:
        assert len(pipe.run()[0]) == 0


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"anchor": [0, 0], "shape": [1]}, "a multiple of the number of axes (2); got 2 and 1"),
        ({"anchor": [0], "shape": [1], "axes": [3]}, "axis 3 is out of range for 3-D samples"),
        ({"anchor": [0], "shape": [1], "axis_names": "X"}, "names the axis 'X'"),
        ({"anchor": [0, 0], "shape": [1, 1], "fill_value": [1, 2]}, "2 values for 3 channels"),
    ],
)
def test_errors_say_what_was_given(arguments, message):
    result = ours("erase", [PICTURES[:1]], ["HWC"], **arguments)
    assert isinstance(result, Failed) and message in result.message, result
