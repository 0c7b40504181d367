"""crop_mirror_normalize, crop, flip and cast beside NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import operators as harness

from asyncdali.errors import SampleError
from asyncdali.operators.crop import crop_rules as rules
from asyncdali.types import DALIDataType

MEAN, STD = np.array([123.675, 116.28, 103.53], np.float32), np.array([58.395, 57.12, 57.375], np.float32)


def random_pictures(count: int, channels: int = 3) -> list[np.ndarray]:
    rng = np.random.default_rng(channels)
    return [rng.integers(0, 256, (h, w, channels)).astype(np.uint8) for h, w in rng.integers(10, 50, (count, 2))]


@pytest.mark.parametrize("layout", ["CHW", "HWC"])
def test_training_path(layout):
    pictures = random_pictures(8)
    mirror = np.arange(8, dtype=np.int32) & 1
    ours = harness.run(
        "crop_mirror_normalize", pictures, "HWC", {"mirror": mirror}, crop=[10.0, 9.0], mean=MEAN.tolist(), std=STD.tolist(),
        output_layout=layout,
    )  # fmt: skip
    for picture, flip, result in zip(pictures, mirror, ours):
        y, x = int((picture.shape[0] - 10) / 2 + 0.5), int((picture.shape[1] - 9) / 2 + 0.5)
        window = picture[y : y + 10, x : x + 9][:, :: -1 if flip else 1]
        expected = (window.astype(np.float32) - MEAN) * (np.float32(1) / STD)
        np.testing.assert_array_equal(result, expected.transpose(2, 0, 1) if layout == "CHW" else expected)


@pytest.mark.parametrize("channels, padded", [(1, 1), (2, 2), (3, 4), (5, 8)])
def test_padded_channels_and_windows_outside(channels, padded):
    pictures = random_pictures(4, channels)
    ours = harness.run(
        "crop_mirror_normalize", pictures, "HWC", crop=[60.0, 70.0], out_of_bounds_policy="pad", fill_values=[-2.0],
        pad_output=True, mirror=1, dtype=DALIDataType.FLOAT16,
    )  # fmt: skip
    for picture, result in zip(pictures, ours):
        y, x = [rules.window_anchor(np.array(n), np.array(w), np.array(0.5), "round") for n, w in zip(picture.shape, (60, 70))]
        expected = np.full((padded, 60, 70), -2, np.float16)
        expected[:channels, -y : -y + picture.shape[0], -x : -x + picture.shape[1]] = picture.transpose(2, 0, 1)
        np.testing.assert_array_equal(result, expected[:, :, ::-1])


def test_shift_scale_and_rounding():
    values = np.arange(-3, 3, 0.25, dtype=np.float32).reshape(2, 4, 3)
    ours = harness.run("crop_mirror_normalize", [values], "HWC", dtype=DALIDataType.INT8, output_layout="HWC", scale=2.0, shift=1.0)[0]
    exact = values * 2 + 1
    np.testing.assert_array_equal(ours, np.trunc(exact + np.copysign(0.5, exact)).astype(np.int8))


@pytest.mark.parametrize(
    "start, rounding, expected", [(0.5, "round", 3), (0.5, "truncate", 2), (0.0, "round", 0), (1.0, "round", 5), (0.3, "round", 2)]
)
def test_anchor(start, rounding, expected):
    assert rules.window_anchor(np.array([15]), np.array([10]), np.array([start], np.float32), rounding)[0] == expected


def test_window_extents_drop_fractions():
    np.testing.assert_array_equal(rules.window_shape(np.array([9, 9, 9, 9]), np.array([3.9, 0, -4, 0.5], np.float32)), [3, 9, 9, 9])


def test_anchor_beyond_the_input_rounds_away_from_zero():
    assert rules.window_anchor(np.array([6]), np.array([9]), np.array([0.5], np.float32), "round")[0] == -2


@pytest.mark.parametrize("policy, mode", [("edge", "edge"), ("wrap", "wrap"), ("reflect", "symmetric"), ("reflect_101", "reflect")])
def test_borders(policy, mode):
    picture = random_pictures(1)[0]
    crop = [float(n + 40) for n in picture.shape[:2]]
    expected = np.pad(picture, ((20, 20), (20, 20), (0, 0)), mode=mode)
    np.testing.assert_array_equal(harness.run("crop", [picture], "HWC", crop=crop, out_of_bounds_policy=policy)[0], expected)


@pytest.mark.parametrize("pixel", [(1, "uint8"), (3, "uint8"), (2, "uint8"), (3, "int16"), (1, "float32"), (2, "float64")])
def test_flip(pixel):
    channels, dtype = pixel
    picture = np.random.default_rng(0).integers(0, 256, (7, 9, channels)).astype(dtype)
    bits = np.arange(4, dtype=np.int32)
    ours = harness.run("flip", [picture] * 4, "HWC", {"horizontal": bits & 1, "vertical": bits >> 1})
    for bit, result in zip(bits, ours):
        np.testing.assert_array_equal(result, picture[:: -1 if bit & 2 else 1, :: -1 if bit & 1 else 1])


def test_cast_saturates_and_rounds_half_away():
    values = np.array([-1.5, -0.5, 0.49999997, 0.5, 2.5, 254.5, 1e9, np.nan], np.float32)
    np.testing.assert_array_equal(harness.run("cast", [values], dtype=DALIDataType.UINT8)[0], [0, 0, 0, 1, 3, 255, 255, 0])
    np.testing.assert_array_equal(harness.run("cast", [values], dtype=DALIDataType.INT32)[0][:7], [-2, -1, 0, 1, 3, 255, 10**9])


@pytest.mark.parametrize(
    "name, constants, text", [
        ("crop", {"crop": [99.0, 2.0]}, r"input_shape=\{4 x 5 x 3\}"), ("crop", {"crop_w": 2.0}, "crop_h"),
        ("crop", {"crop": [1.0]}, "2 or 3"),
        ("crop", {"crop": [2.0, 2.0], "crop_pos_y": 1.2}, "dimension 0"), ("crop", {"rounding": "up"}, "rounding"),
        ("crop", {"dtype": DALIDataType.INT32}, "INT32"), ("crop_mirror_normalize", {"output_layout": "CDHW"}, "permutation"),
        ("crop_mirror_normalize", {"mean": [1.0, 2.0]}, "channels"), ("crop_mirror_normalize", {"dtype": DALIDataType.INT16}, "INT16"),
        ("crop_mirror_normalize", {"out_of_bounds_policy": "wrap"}, "wrap"), ("cast", {"dtype": DALIDataType.STRING}, "STRING"),
    ],
)  # fmt: skip
def test_refusals(name, constants, text):
    with pytest.raises((ValueError, SampleError), match=text):
        harness.run(name, [np.zeros((4, 5, 3), np.uint8)], "HWC", **constants)
