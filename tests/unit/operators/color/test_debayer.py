"""debayer: the results of OpenCV, a pattern per frame, and the kernel beside the compiled step."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from helpers import kernels
from helpers.operators import run
from helpers.pipelines import pipeline_of
from helpers.twins import assert_near, both

from asyncdali import fn, types
from asyncdali.errors import SampleError
from asyncdali.operators.color.debayer import ALGORITHMS

CODES = {(0, 0): cv2.COLOR_BayerBG2RGB, (0, 1): cv2.COLOR_BayerGB2RGB, (1, 0): cv2.COLOR_BayerGR2RGB, (1, 1): cv2.COLOR_BayerRG2RGB}


def mosaics(dtype, *shapes):
    rng = np.random.default_rng(1)
    return [rng.integers(0, np.iinfo(dtype).max, shape, dtype, endpoint=True) for shape in shapes]


@pytest.mark.parametrize("blue", CODES)
def test_results_equal_opencvs(blue):
    (image,) = mosaics("uint8", (20, 34))
    (found,) = run("debayer", [image], "HW", blue_position=list(blue))
    np.testing.assert_array_equal(found, cv2.cvtColor(image, CODES[blue]))


def test_per_frame_and_devices():
    frames = mosaics("uint8", (4, 10, 12))[0]
    positions = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], np.int32)

    def graph():
        data = fn.external_source(lambda: [frames], layout="FHW")
        blue = fn.per_frame(types.Constant(positions))
        return fn.debayer(data, blue_position=blue), fn.debayer(data.gpu(), blue_position=blue, algorithm="default_npp").cpu()

    with pipeline_of(graph, batch_size=1, device_id=0) as pipeline:
        ours, host_device = pipeline.run()
        assert ours.layout() == host_device.layout() == "FHWC"
    for output in (ours, host_device):
        for k, blue in enumerate(map(tuple, positions.tolist())):
            np.testing.assert_array_equal(np.asarray(output.at(0))[k], cv2.cvtColor(frames[k], CODES[blue]))


def test_wrong_arguments_and_inputs():
    (image,) = mosaics("uint8", (8, 8))
    for data, layout, arguments, text in (
        (image, "HW", {"algorithm": "default_npp"}, 'on the device "cpu"; supported are bilinear_ocv, edgeaware_ocv, vng_ocv, gray_ocv'),
        (image, "HW", {"blue_position": [0, 2]}, r"two of 0 and 1, got \[0, 2\]"),
        (image[:7], "HW", {}, r"must be even, got \[7, 8\]"),
        (np.stack([image] * 3, -1), "HWC", {}, "must have one channel"),
        (image.astype(np.uint16), "HW", {"algorithm": "vng_ocv"}, "works on UINT8 only; the input is UINT16"),
        (image.astype(np.int32), "HW", {}, "Unsupported input type INT32 .*supported types are: UINT8, UINT16"),
        (image, "CH", {}, "allowed layouts"),
    ):
        with pytest.raises((ValueError, SampleError), match=text):
            run("debayer", [data], layout, **{"blue_position": [0, 0], **arguments})


@pytest.mark.skipif(kernels.COMPILER is None, reason="no C++ compiler to build kernels for the host")
@pytest.mark.parametrize(
    "algorithm, dtype", [(name, dtype) for name in ALGORITHMS for dtype in ("uint8", "uint16") if (name, dtype) != ("vng_ocv", "uint16")]
)
def test_kernel(algorithm, dtype):
    blue = {"blue_position": np.array([[0, 0], [0, 1], [1, 0], [1, 1], [0, 0]], np.int32)}
    data = mosaics(dtype, (2, 8, 8), (1, 30, 24), (3, 6, 10), (1, 2, 8), (1, 16, 40))
    assert_near(*both("debayer", data, "FHW", blue, algorithm=algorithm))
