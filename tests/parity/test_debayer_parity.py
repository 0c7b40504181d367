"""debayer beside DALI's: patterns, types, sizes, frames and refusals."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.images import picture
from helpers.parity import dali_outputs, errors, our_outputs, same

pytest.importorskip("nvidia.dali")

ALGORITHMS = [None, "bilinear_ocv", "EdgeAware_OCV", "vng_ocv", "gray_ocv"]
LAYOUTS = ["HW", "HWC", "FHW", "FHWC", ""]


def mosaic(rng, layout, dtype):
    """A random sample: noise, or a smooth picture, with equal chance."""
    height, width = (2 * rng.integers(1, 24, 2)).tolist()
    frames = int(rng.integers(1, 4)) if "F" in layout else 1
    if rng.random() < 0.5:
        data = rng.integers(0, np.iinfo(dtype).max, (frames, height, width), dtype, endpoint=True)
    else:
        one = picture(height, width, 3, int(rng.integers(99)))[..., 0].astype(dtype)
        data = np.stack([one * (257 if dtype == "uint16" else 1)] * frames)
    data = data if "F" in layout else data[0]
    return np.ascontiguousarray(data[..., None] if "C" in layout or not layout else data)


@pytest.mark.parametrize("case", range(50))
def test_random_cases(case):
    rng = np.random.default_rng(case)
    algorithm, layout = ALGORITHMS[case % 5], LAYOUTS[case // 5 % 5]
    dtype = "uint8" if algorithm == "vng_ocv" else str(rng.choice(["uint8", "uint16"]))
    samples = [mosaic(rng, layout, dtype) for _ in range(4)]
    constants = {} if algorithm is None else {"algorithm": algorithm}
    blue = {"blue_position": rng.integers(0, 2, (4, 2)).astype(np.int32)}
    theirs = dali_outputs("debayer", [samples], [layout], blue, **constants)[0]
    ours = our_outputs("debayer", [samples], [layout], blue, **constants)[0]
    if algorithm == "vng_ocv":  # In the last columns of wide images, means that end in a half are rarely rounded in another direction.
        found = errors(theirs, ours)
        assert found.max() <= 1 and (found > 0).mean() < 1e-2
    else:
        same(theirs, ours)


@pytest.mark.parametrize(
    "shape, dtype, layout, arguments",
    [
        ((4, 5), np.uint8, "HW", {}), ((4, 4, 3), np.uint8, "HWC", {}), ((4, 4), np.int16, "HW", {}), ((4, 4), np.uint8, "", {}),
        ((4, 4), np.uint8, "HW", {"blue_position": [0, 2]}), ((4, 4), np.uint8, "HW", {"algorithm": "bicubic"}),
        ((4, 4), np.uint8, "HW", {"algorithm": "default_npp"}), ((8, 8), np.uint16, "HW", {"algorithm": "vng_ocv"}),
        ((4, 4), np.uint8, "HW", {"blue_position": [0, 1, 1]}),
    ],
)  # fmt: skip
def test_both_refuse_or_agree(shape, dtype, layout, arguments):
    data = [np.zeros(shape, dtype)]
    arguments = {"blue_position": [0, 0], **arguments}
    try:
        theirs = dali_outputs("debayer", [data], [layout], **arguments)[0]
    except (RuntimeError, ValueError):
        with pytest.raises((RuntimeError, ValueError)):
            our_outputs("debayer", [data], [layout], **arguments)
    else:
        same(theirs, our_outputs("debayer", [data], [layout], **arguments)[0])
