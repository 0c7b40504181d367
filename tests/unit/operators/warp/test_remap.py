"""experimental.remap beside OpenCV and a NumPy model, and its kernel beside the compiled step."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from helpers import kernels
from helpers.marks import slow
from helpers.operators import run_operator
from helpers.pipelines import pipeline_of
from helpers.twins import assert_near, both

from asyncdali import fn, types
from asyncdali.errors import SampleError

DTYPES = ["uint8", "uint16", "int16", "float32"]


def images_and_maps(rng, dtype, count):
    images, xs, ys = [], [], []
    for _ in range(count):
        height, width = rng.integers(1, 40, 2).tolist()
        shape = (height, width, int(rng.choice([1, 3])))
        info = None if dtype == "float32" else np.iinfo(dtype)
        made = rng.normal(0, 50, shape) if info is None else rng.integers(info.min, info.max, shape, endpoint=True)
        images.append(made.astype(dtype))
        xs.append(rng.uniform(-3, width + 3, (height, width)).astype(np.float32))
        ys.append(rng.uniform(-3, height + 3, (height, width)).astype(np.float32))
    return images, xs, ys


def model(image, xs, ys, linear, corner):
    """remap in float64. Pixels outside of the image are 0."""
    height, width = image.shape[:2]
    padded = np.zeros((height + 8, width + 8, image.shape[2]))
    padded[4:-4, 4:-4] = image
    x, y = (values.astype(np.float64) - (0.5 if corner else 0) + 4 for values in (xs, ys))
    if not linear:
        return padded[np.floor(y + 0.5).astype(int), np.floor(x + 0.5).astype(int)]
    column, row = np.floor(x).astype(int), np.floor(y).astype(int)
    fx, fy = (x - column)[..., None], (y - row)[..., None]
    upper = padded[row, column] * (1 - fx) + padded[row, column + 1] * fx
    return upper * (1 - fy) + (padded[row + 1, column] * (1 - fx) + padded[row + 1, column + 1] * fx) * fy


@pytest.mark.parametrize(
    "interp, origin",
    [
        (types.INTERP_NN, "corner"), (types.INTERP_LINEAR, "center"),
        *slow((types.INTERP_NN, "center"), (types.INTERP_LINEAR, "corner")),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", DTYPES)
def test_random_maps(dtype, interp, origin):
    linear = interp == types.INTERP_LINEAR
    inputs = images_and_maps(np.random.default_rng(int(interp)), dtype, 8)
    found = run_operator("experimental.remap", *inputs, interp=interp, pixel_origin=origin)
    for image, xs, ys, out in zip(*inputs, found, strict=True):
        expected = model(image, xs, ys, linear, origin == "corner")
        assert out.dtype == image.dtype
        if linear:
            bound = 0.51 + (0.02 if dtype.endswith("16") else 0)
            assert np.abs(out.astype(np.float64) - expected).max() <= (1e-3 if dtype == "float32" else bound)
        else:
            np.testing.assert_array_equal(out, expected.astype(dtype))


def test_results_are_near_opencvs():
    (image,), (xs,), (ys,) = images_and_maps(np.random.default_rng(1), "float32", 1)
    (found,) = run_operator("experimental.remap", [image], [xs], [ys], pixel_origin="center")
    expected = cv2.remap(image, xs, ys, cv2.INTER_LINEAR, borderMode=cv2.BORDER_CONSTANT, borderValue=0)
    assert np.abs(found.reshape(expected.shape) - expected).max() < 50 * 5 / 32  # OpenCV rounds positions to multiples of 1 / 32


def test_positions_that_are_nan_or_infinite():
    image = np.full((2, 3, 1), 9, np.uint8)
    places = np.array([[np.nan, np.inf, -np.inf], [1e30, 0.5, 1.5]], np.float32)
    for interp in (types.INTERP_NN, types.INTERP_LINEAR):
        (found,) = run_operator("experimental.remap", [image], [places], [np.full((2, 3), 0.5, np.float32)], interp=interp)
        assert found[..., 0].tolist() == [[0, 0, 0], [0, 9, 9]]


@pytest.mark.parametrize("channel", [False, True])
def test_frames_and_the_host_device(channel):
    rng = np.random.default_rng(2)
    frames = rng.integers(0, 256, (3, 7, 9, 3)).astype(np.uint8)
    xs = rng.uniform(0, 9, (3, 7, 9)).astype(np.float32)
    ys = rng.uniform(0, 7, (7, 9)).astype(np.float32)

    def graph():
        data = fn.external_source(lambda: [frames], layout="FHWC")
        mapx = fn.external_source(lambda: [xs[..., None] if channel else xs], layout="FHWC" if channel else "FHW")
        mapy = fn.external_source(lambda: [ys[..., None] if channel else ys], layout="HWC" if channel else "HW")
        return fn.experimental.remap(data, mapx, mapy), fn.experimental.remap(data.gpu(), mapx, mapy.gpu()).cpu()

    with pipeline_of(graph, batch_size=1, device_id=0) as pipeline:
        for output in pipeline.run():
            assert output.layout() == "FHWC"
            for k in range(3):
                expected = model(frames[k], xs[k], ys, True, True)
                assert np.abs(np.asarray(output.at(0))[k] - expected).max() <= 0.51


def test_wrong_arguments_and_inputs():
    image, places = np.zeros((4, 5, 3), np.uint8), np.zeros((4, 5), np.float32)
    for inputs, arguments, text in (
        ((image, places, places), {"interp": types.INTERP_CUBIC}, "INTERP_NN or INTERP_LINEAR, got INTERP_CUBIC"),
        ((image, places, places), {"pixel_origin": "middle"}, '"corner" or "center", got'),
        ((image, places[:3], places), {}, r"`mapx` has the shape \[3, 5\]; the image has \[4, 5\]"),
        ((image, places, places.astype(np.float64)), {}, "FLOAT64 .input 2, mapy.; supported types are: FLOAT"),
        ((image.astype(np.int32), places, places), {}, "Unsupported input type INT32"),
    ):
        with pytest.raises((ValueError, SampleError), match=text):
            run_operator("experimental.remap", *[[one] for one in inputs], **arguments)


@pytest.mark.skipif(kernels.COMPILER is None, reason="no C++ compiler to build kernels for the host")
@pytest.mark.parametrize("dtype", DTYPES)
def test_kernel(dtype):
    images, xs, ys = images_and_maps(np.random.default_rng(3), dtype, 5)
    for interp in (types.INTERP_NN, types.INTERP_LINEAR):
        assert_near(*both("experimental.remap", images, "", more=(xs, ys), interp=interp))
