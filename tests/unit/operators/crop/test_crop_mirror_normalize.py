"""crop_mirror_normalize: window, mirror, mean and deviation in one call."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import operators as harness
from helpers.marks import slow

from asyncdali import types
from asyncdali.errors import SampleError


def test_the_operator_equals_its_parts():
    image = np.random.default_rng(2).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    mean, std = [10.0, 20.0, 30.0], [2.0, 4.0, 8.0]
    for mirror in (0, 1):
        (found,) = harness.run(
            "crop_mirror_normalize", [image], "HWC", crop=[4, 5], crop_pos_y=0.0, crop_pos_x=0.0, mean=mean, std=std, mirror=mirror
        )
        window = image[:4, :5][:, :: -1 if mirror else 1]
        np.testing.assert_allclose(found, ((window - np.float32(mean)) / np.float32(std)).transpose(2, 0, 1), rtol=1e-6)


def test_the_layout_of_the_output():
    image = np.ones((2, 3, 1), np.uint8)
    assert harness.run("crop_mirror_normalize", [image], "HWC", output_layout="HWC")[0].shape == (2, 3, 1)
    assert harness.run("crop_mirror_normalize", [image], "HWC", dtype=types.FLOAT16)[0].dtype == np.float16


@pytest.mark.parametrize("dtype", [types.FLOAT, types.FLOAT16, types.INT8], ids=lambda kind: kind.name)
@pytest.mark.parametrize(
    ("layout", "result", "elements"),
    [
        ("HWC", "CHW", [np.uint8]), ("HWC", "HWC", [np.int16]), ("CHW", "CHW", [np.float32]), ("CHW", "HWC", [np.uint8]),
        *slow(*((layout, result, [np.uint8, np.int16, np.float32]) for layout in ("HWC", "CHW") for result in ("HWC", "CHW"))),
    ],
)  # fmt: skip
def test_a_mirrored_picture_is_the_reversed_one(layout, result, elements, dtype):
    """Each pair of layouts has a loop of its own. Widths are around those of vectors, and of one cache line."""
    rng = np.random.default_rng(5)
    widths = (1, 2, 5, 15, 16, 17, 63, 64, 65, 130, 224)
    for element in elements:
        images = [rng.integers(0, 100, (3, 4, width) if layout == "CHW" else (4, width, 3)).astype(element) for width in widths]
        options = {"output_layout": result, "mean": [10.0, 20.0, 30.0], "std": [2.0, 3.0, 7.0], "dtype": dtype}
        plain, mirrored = (harness.run("crop_mirror_normalize", images, layout, mirror=mirror, **options) for mirror in (0, 1))
        across = result.index("W")
        for left, right in zip(plain, mirrored, strict=True):
            np.testing.assert_array_equal(np.flip(left, across), right)


def test_a_mirrored_window_that_leaves_the_picture():
    image = np.random.default_rng(6).integers(0, 256, (9, 70, 3), dtype=np.uint8)
    options = {"crop": [12, 81], "crop_pos_x": 0.3, "crop_pos_y": 0.7, "out_of_bounds_policy": "pad", "fill_values": [3.0, 4.0, 5.0]}
    plain, mirrored = (harness.run("crop_mirror_normalize", [image], "HWC", mirror=mirror, **options)[0] for mirror in (0, 1))
    np.testing.assert_array_equal(plain[..., ::-1], mirrored)


def test_values_for_other_channels_name_the_layout():
    """The input may be CHW without a layout."""
    with pytest.raises(SampleError, match=r"have 3 values; the output slice has 20 channels \(the input is taken as HWC\)"):
        harness.run("crop_mirror_normalize", [np.zeros((3, 10, 20), np.uint8)], mean=[1.0, 2.0, 3.0], std=[1.0] * 3)
