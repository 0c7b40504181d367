"""rotate beside a simple model, which interpolates every pixel from the inverse map in float64."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import operators as harness
from numba import njit

from asyncdali.errors import SampleError
from asyncdali.operators.warp import rotate_kernels
from asyncdali.operators.warp import rotate_rules as rules
from asyncdali.types import DALIDataType, DALIInterpType


def naive(picture: np.ndarray, angle: float, fill: float | None) -> np.ndarray:
    shape = np.array([picture.shape[:2]])
    matrix = rules.rotation_2d(np.array([angle], np.float32))
    height, width = extents = rules.canvas(shape, matrix)[0]
    map_ = rules.inverse_maps(shape, np.array([extents]), matrix)[0].astype(np.float64)
    y, x = np.mgrid[:height, :width] + 0.5
    px = map_[0, 0] * x + map_[0, 1] * y + map_[0, 3] - 0.5
    py = map_[1, 0] * x + map_[1, 1] * y + map_[1, 3] - 0.5
    pad = 60
    border = {"mode": "edge"} if fill is None else {"constant_values": fill}
    padded = np.pad(picture.astype(np.float64), ((pad, pad), (pad, pad), (0, 0)), **border)
    x0, y0 = np.floor(px).astype(int), np.floor(py).astype(int)
    fx, fy = (px - x0)[..., None], (py - y0)[..., None]

    def at(row: np.ndarray, column: np.ndarray) -> np.ndarray:
        return padded[np.clip(row + pad, 0, padded.shape[0] - 1), np.clip(column + pad, 0, padded.shape[1] - 1)]

    top = at(y0, x0) * (1 - fx) + at(y0, x0 + 1) * fx
    return top * (1 - fy) + (at(y0 + 1, x0) * (1 - fx) + at(y0 + 1, x0 + 1) * fx) * fy


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("fill", [None, 0.0, 77.0])
def test_linear(fill, channels):
    rng = np.random.default_rng(channels)
    pictures = [rng.integers(0, 256, (h, w, channels)).astype(np.uint8) for h, w in rng.integers(1, 40, (20, 2))]
    angles = rng.uniform(-180, 180, 20).astype(np.float32)
    constants = {} if fill is None else {"fill_value": fill}
    exact = harness.run("rotate", pictures, "HWC", {"angle": angles}, dtype=DALIDataType.FLOAT, **constants)
    bytes_ = harness.run("rotate", pictures, "HWC", {"angle": angles}, **constants)
    for picture, angle, a, b in zip(pictures, angles, exact, bytes_):
        expected = naive(picture, angle, fill)
        np.testing.assert_allclose(a, expected, atol=0.05)
        assert np.abs(b - expected).max() <= 0.55


@pytest.mark.parametrize("kind", [DALIInterpType.INTERP_NN, DALIInterpType.INTERP_LINEAR])
@pytest.mark.parametrize("dtype", ["uint8", "float32", *(pytest.param(k, marks=pytest.mark.slow) for k in ("int16", "int32"))])
def test_quarter_turns(dtype, kind):
    picture = np.random.default_rng(0).integers(0, 256, (9, 14, 3)).astype(dtype)
    angles = np.array([0, 90, 180, 270, -90], np.float32)
    ours = harness.run("rotate", [picture] * 5, "HWC", {"angle": angles}, interp_type=kind, fill_value=0.0)
    for turns, result in zip((0, 1, 2, 3, 3), ours):
        np.testing.assert_allclose(result, np.rot90(picture, turns), atol=1e-2)


def test_the_canvas_contains_the_picture_and_keeps_parity():
    rng = np.random.default_rng(0)
    shapes = rng.integers(1, 100, (500, 2))
    angles = rng.uniform(-180, 180, 500).astype(np.float32)
    extents = rules.canvas(shapes, rules.rotation_2d(angles))
    sine, cosine = np.abs(np.sin(np.deg2rad(angles))), np.abs(np.cos(np.deg2rad(angles)))
    box = np.stack([shapes[:, 0] * cosine + shapes[:, 1] * sine, shapes[:, 0] * sine + shapes[:, 1] * cosine], 1)
    assert (extents >= box - 0.02).all() and (extents < box + 2).all()
    upright = (sine < cosine)[:, None]
    assert (((extents - np.where(upright, shapes, shapes[:, ::-1])) & 1) == 0).all()


def test_volume_about_z_is_planes():
    rng = np.random.default_rng(0)
    volume = rng.integers(0, 256, (4, 12, 15, 2)).astype(np.uint8)
    turned = harness.run("rotate", [volume], "DHWC", angle=30.0, axis=[0.0, 0.0, 2.0], fill_value=5.0)[0]
    planes = harness.run("rotate", [volume], "FHWC", angle=-30.0, fill_value=5.0)[0]
    assert turned.shape == planes.shape and np.abs(turned.astype(int) - planes).max() <= 1


@pytest.mark.parametrize(
    "constants, text", [
        ({"angle": 1.0, "interp_type": DALIInterpType.INTERP_CUBIC}, "nearest and linear"), ({"angle": float("inf")}, "finite"),
        ({"angle": 1.0, "size": [3.0]}, "size"), ({"angle": 1.0, "size": [0.0, 3.0]}, "positive"),
        ({"angle": 1.0, "dtype": DALIDataType.INT16}, "UINT8 -> INT16"),
    ],
)  # fmt: skip
def test_refusals(constants, text):
    with pytest.raises((ValueError, SampleError), match=text):
        harness.run("rotate", [np.zeros((4, 5, 3), np.uint8)], "HWC", **constants)


@pytest.mark.parametrize("axis", [None, [0.0, 0.0, 0.0], [1.0, 0.0]])
def test_axis_is_checked(axis):
    with pytest.raises((ValueError, SampleError), match="axis"):
        harness.run("rotate", [np.zeros((2, 4, 5, 3), np.uint8)], "DHWC", angle=1.0, **({} if axis is None else {"axis": axis}))


def test_empty_pictures():
    shapes = [a.shape for a in harness.run("rotate", [np.zeros((0, 5, 3), np.uint8)], "HWC", angle=30.0, size=[4.0, 4.0])]
    assert shapes == [(4, 4, 3)]


def test_sums_in_steps():
    """A vectorized running sum equals single additions, also if the exponent or the sign changes, for halves, and for steps of 0."""
    rng = np.random.default_rng(1)
    special = [0, 0.5, 1, 3, -0.25, 1e-9, -1e-5, 1e5, 2**-24, 1 + 2**-23]
    steps = np.concatenate([rng.uniform(-2, 2, 300), rng.choice(special, 200)])
    starts = np.concatenate([rng.uniform(-3000, 3000, 300), rng.choice([0, 1, 0.5, -8, 2**24, 1e30, -(2**23), 1e-40], 200)])
    advanced = njit(rotate_kernels.advanced.py_func)  # a helper has no code of its own
    for start, step in zip(starts.astype(np.float32), steps.astype(np.float32), strict=True):
        known = [start]
        for _ in range(256):
            known.append(np.float32(known[-1] + step))
        for count in (0, 1, 7, 9, 10, 63, 100, 255, 256):
            assert advanced(start, step, count) == known[count], (start, step, count)
