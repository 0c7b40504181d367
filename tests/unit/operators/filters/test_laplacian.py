"""laplacian: parabolas, saturation, in a pipeline."""

from __future__ import annotations

import numpy as np
from helpers import operators as harness
from helpers.pipelines import pipeline_of

from asyncdali import fn
from asyncdali.types import DALIDataType


def test_a_parabola_is_constant():
    y, x = np.mgrid[:20, :20].astype(np.float32)
    data = (x * x + 3 * y * y)[..., None]
    (result,) = harness.run("laplacian", [data], "HWC", smoothing_size=1)
    np.testing.assert_allclose(result[2:-2, 2:-2], 8)
    (scaled,) = harness.run("laplacian", [data], "HWC", smoothing_size=1, scale=[0.5, 2.0])
    np.testing.assert_allclose(scaled[2:-2, 2:-2], 0.5 * 6 + 2 * 2)
    (normalized,) = harness.run("laplacian", [data], "HWC", window_size=7, normalized_kernel=True)
    np.testing.assert_allclose(normalized[4:-4, 4:-4], 8, rtol=1e-4)


def test_integers_saturate():
    data = np.zeros((9, 9, 1), np.uint8)
    data[4, 4] = 255
    (result,) = harness.run("laplacian", [data], "HWC", smoothing_size=1)
    assert result[4, 4, 0] == 0 and result[4, 3, 0] == 255 and result[3, 3, 0] == 0


def test_smoothing_windows_are_as_long_as_the_derivative():
    """A derivative of 5 elements along the width is smoothed by 5 elements along the height, though the derivative there has 3."""
    data = np.zeros((9, 9, 1), np.float32)
    data[4, 4] = 1
    (result,) = harness.run("laplacian", [data], "HWC", window_size=[3, 5], scale=[0.0, 1.0])
    np.testing.assert_array_equal(result[2:7, 2:7, 0], np.outer([1, 4, 6, 4, 1], [1, 0, -2, 0, 1]))
    assert np.count_nonzero(result) == 15


def test_a_volume_of_one_plane_is_smoothed_along_its_depth():
    plane = np.random.default_rng(2).random((6, 7)).astype(np.float32)
    (of_plane,) = harness.run("laplacian", [plane], "HW")
    (of_volume,) = harness.run("laplacian", [plane[None]], "DHW")
    np.testing.assert_allclose(of_volume[0], 4 * of_plane, rtol=1e-5)


def test_in_a_pipeline():
    data = np.random.default_rng(3).integers(0, 250, (8, 9, 3), dtype=np.uint8)
    with pipeline_of(lambda: fn.laplacian(fn.external_source(lambda: [data] * 3, layout="HWC"), dtype=DALIDataType.FLOAT)) as pipeline:
        [edges] = pipeline.run()
        np.testing.assert_array_equal(np.asarray(edges[0]), harness.run("laplacian", [data.astype(np.float32)], "HWC")[0])
