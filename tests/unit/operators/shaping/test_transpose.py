"""transpose, coord_flip and bb_flip: pipelines, views, empty inputs and errors."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.pipelines import pipeline_of
from helpers.tensor_parity import Failed, batch, ours, plan

from asyncdali import fn, types

PICTURES = [np.random.default_rng(k).integers(0, 255, (4, 5 + k, 3), np.uint8) for k in range(3)]


@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_pictures_to_planes_and_back(device):
    def graph():
        x = fn.external_source(lambda: PICTURES, layout="HWC")
        x = x.gpu() if device == "gpu" else x
        planes = fn.transpose(x, perm=[2, 0, 1])
        return planes, fn.transpose(planes, perm=[1, 2, 0]), fn.transpose(x)

    pipe = pipeline_of(graph)
    with pipe:
        planes, back, reverse = (output.as_cpu() for output in pipe.run())
    assert (planes.layout(), back.layout(), reverse.layout()) == ("CHW", "HWC", "CWH")
    for i, picture in enumerate(PICTURES):
        np.testing.assert_array_equal(np.asarray(planes[i]), picture.transpose(2, 0, 1))
        np.testing.assert_array_equal(np.asarray(back[i]), picture)
        np.testing.assert_array_equal(np.asarray(reverse[i]), picture.T)


@pytest.mark.parametrize("dtype", ["uint8", "float16", "int32", "float64"])
def test_large_and_odd_shapes(dtype):
    sample = np.arange(3 * 70 * 2 * 65).reshape(3, 70, 2, 65).astype(dtype)
    for perm in ([3, 1, 2, 0], [1, 0, 3, 2], [2, 3, 0, 1], [0, 3, 2, 1]):
        np.testing.assert_array_equal(ours("transpose", [[sample]], perm=perm).samples[0], sample.transpose(perm))


def test_moving_axes_of_extent_one_makes_a_view():
    assert not plan("transpose", [batch([np.zeros((1, 4, 1, 3))])], {}, {"perm": [1, 0, 3, 2]}).steps
    assert plan("transpose", [batch([np.zeros((1, 4, 1, 3))])], {}, {"perm": [3, 0, 1, 2]}).steps


def test_points_and_boxes_follow_their_picture():
    def graph():
        up = fn.random.coin_flip(seed=4)
        points = fn.external_source(lambda: [np.float32([[0.25, 0.5]])] * 3)
        boxes = fn.external_source(lambda: [np.float32([[0.25, 0.5, 0.5, 0.25]])] * 3)
        return fn.coord_flip(points, flip_x=0, flip_y=up), fn.bb_flip(boxes.gpu(), horizontal=0, vertical=up), up

    pipe = pipeline_of(graph)
    with pipe:
        points, boxes, up = (output.as_cpu() for output in pipe.run())
    for i in range(3):
        assert np.asarray(points[i]).tolist() == [[0.25, 0.5]]
        assert np.asarray(boxes[i]).tolist() == [[0.25, 0.25 if np.asarray(up[i]) else 0.5, 0.5, 0.25]]


def test_empty_batches():
    def graph():
        x = fn.external_source(lambda: [][:], ndim=2, dtype=types.FLOAT)
        return fn.transpose(x, perm=[1, 0]), fn.coord_flip(x), fn.bb_flip(x)

    pipe = pipeline_of(graph)
    with pipe:
        assert [len(output) for output in pipe.run()] == [0] * 3


@pytest.mark.parametrize(
    "name, sample, arguments, message",
    [
        ("transpose", np.zeros((2, 3)), {"perm": [0, 2]}, "permutation of 0 to 1, got [0, 2]"),
        ("transpose", np.zeros((2, 3)), {"perm": [0, 2, 1]}, "has 3 axes, the input 2"),
        ("transpose", np.zeros((2, 3)), {"output_layout": "X"}, "1 letters for 2 dimensions"),
        ("coord_flip", np.zeros((2, 3)), {}, "supported types are: FLOAT"),
        ("coord_flip", np.zeros((2, 4), np.float32), {}, "1 to 3 coordinates"),
        ("coord_flip", np.zeros((2, 2), np.float32), {"layout": "xa"}, "does not say where 'y' is"),
        ("coord_flip", np.zeros(2, np.float32), {}, "has 1 dimensions; supported are: 2"),
        ("bb_flip", np.zeros((2, 3), np.float32), {}, "four numbers each, got shape (2, 3)"),
    ],
)
def test_errors_say_what_was_given(name, sample, arguments, message):
    result = ours(name, [[sample]], **arguments)
    assert isinstance(result, Failed) and message in result.message, result


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32", "float64"])
def test_pixels_of_three_elements_of_any_number(dtype):
    """Blocks of pixels are shuffled in registers, and the last pixels one by one."""
    random = np.random.default_rng(6)
    sizes = [*range(1, 80), 127, 129, 191, 192, 193, 513]
    pictures = [random.integers(0, 255, (2, width, 3)).astype(dtype) for width in sizes]
    planes = ours("transpose", [pictures], perm=[2, 0, 1]).samples
    back = ours("transpose", [planes], perm=[1, 2, 0]).samples
    for picture, divided, same in zip(pictures, planes, back, strict=True):
        np.testing.assert_array_equal(divided, picture.transpose(2, 0, 1))
        np.testing.assert_array_equal(same, picture)


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32", "float64"])
def test_whole_pixels_change_places(dtype):
    picture = np.random.default_rng(7).integers(0, 255, (37, 53, 3)).astype(dtype)
    np.testing.assert_array_equal(ours("transpose", [[picture]], perm=[1, 0, 2]).samples[0], picture.transpose(1, 0, 2))
