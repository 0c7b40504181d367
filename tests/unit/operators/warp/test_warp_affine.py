"""warp_affine: exact maps, the result of rotate, empty input and errors."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.pipelines import pipeline_of
from helpers.tensor_parity import Failed, ours

from asyncdali import fn, types

PICTURES = [np.random.default_rng(k).integers(0, 256, (20 + k, 30, 3), np.uint8) for k in range(3)]


def test_whole_pixels_and_their_inverse():
    matrix = [1, 0, 2, 0, 1, 3]  # output (0, 0) is input (2, 3)
    (moved,) = ours("warp_affine", [PICTURES[:1]], ["HWC"], matrix=matrix, fill_value=7.0).samples
    np.testing.assert_array_equal(moved[:-3, :-2], PICTURES[0][3:, 2:])
    assert (moved[-3:] == 7).all() and (moved[:, -2:] == 7).all()
    (back,) = ours("warp_affine", [PICTURES[:1]], ["HWC"], matrix=matrix, fill_value=7.0, inverse_map=False).samples
    np.testing.assert_array_equal(back[3:, 2:], PICTURES[0][:-3, :-2])


def test_with_large_steps_the_first_pixel_outside_is_filled():
    """The pixel after the last one inside has exactly the fill value."""
    picture = np.full((9, 9, 3), 200, np.uint8)
    for step in np.arange(1, 6, 0.125):
        (result,) = ours("warp_affine", [[picture]], ["HWC"], matrix=[step, 0, 0, 0, 1, 0], fill_value=7.0, size=[9.0, 20.0]).samples
        outside = (np.arange(20) + 0.5) * step - 0.5 >= 9
        assert (result[:, outside] == 7).all() and (result[:, 0] == 200).all()


@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_random_transforms_in_a_pipeline(device):
    def graph():
        x = fn.external_source(lambda: PICTURES, layout="HWC")
        x = x.gpu() if device == "gpu" else x
        angle = fn.random.uniform(range=[-40, 40], seed=5)
        turn = fn.transforms.rotation(angle=angle, center=[15, 10])
        size = {"size": [20.0, 30.0], "fill_value": 0.0}
        return fn.warp_affine(x, matrix=turn, **size), fn.warp_affine(x, turn, **size), fn.warp_affine(x, turn, inverse_map=False, **size)

    pipe = pipeline_of(graph)
    with pipe:
        by_name, by_position, inverse = (output.as_cpu() for output in pipe.run())
    for a, b, c, picture in zip(by_name, by_position, inverse, PICTURES):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
        assert np.asarray(a).shape == (20, 30, 3) and (np.asarray(a) != np.asarray(c)).any()
        assert np.abs(np.asarray(a)[10, 15].astype(int) - picture[9:12, 14:17].mean((0, 1))).max() < 128  # the centre does not move


def test_empty_batches():
    def graph():
        return fn.warp_affine(fn.external_source(lambda: [][:], ndim=3, dtype=types.UINT8), matrix=[1, 0, 0, 0, 1, 0])

    pipe = pipeline_of(graph)
    with pipe:
        assert len(pipe.run()[0]) == 0


@pytest.mark.parametrize(
    "inputs, arguments, message",
    [
        ([PICTURES[:1]], {}, "exactly one of `matrix` and a second input"),
        ([PICTURES[:1]], {"matrix": [1, 2, 3]}, "must be 6 finite numbers, got [1.0, 2.0, 3.0]"),
        ([PICTURES[:1]], {"matrix": [1, 0, 0, 2, 0, 0], "inverse_map": False}, "cannot be inverted"),
        ([PICTURES[:1], [np.eye(2, 3)]], {}, "supported types are: FLOAT"),
        ([PICTURES[:1]], {"matrix": [1, 0, 0, 0, 1, 0], "size": [1, 2, 3]}, "same number of dimensions"),
    ],
)
def test_errors_say_what_was_given(inputs, arguments, message):
    result = ours("warp_affine", inputs, ["HWC", ""][: len(inputs)], **arguments)
    assert isinstance(result, Failed) and message in result.message, result
