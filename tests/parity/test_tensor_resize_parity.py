"""tensor_resize beside DALI's: lengths, regions, axes and filters."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import operators as harness
from helpers.parity import assert_both_refuse, dali_output, errors

from asyncdali.types import DALIDataType, DALIInterpType

pytest.importorskip("nvidia.dali")
NAME = "tensor_resize"
X, Y = np.random.default_rng(0).random((6, 8)).astype(np.float32), np.random.default_rng(1).random((5, 6, 7)).astype(np.float32)
FIVE = np.random.default_rng(2).random((3, 4, 5, 6, 2)).astype(np.float32)


def compare(samples, tolerance=1e-5, layout="", per_sample=None, **constants):
    theirs = dali_output(NAME, samples, layout, per_sample, **constants)
    ours = harness.run(NAME, samples, layout, per_sample, **constants)
    assert errors(theirs, ours).max(initial=0) <= tolerance


@pytest.mark.parametrize("samples, constants", [
    ([np.arange(10, dtype=np.float32)], {"sizes": [5]}), ([X], {"sizes": [5, 4]}), ([Y], {"sizes": [5, 4, 3]}), ([X], {"sizes": [4]}),
    ([FIVE], {"sizes": [2, 7, 3], "axes": [1, 2, 3]}), ([FIVE], {"sizes": [2, 9], "axes": [1, 3]}),
    ([FIVE], {"sizes": [9, 2], "axes": [3, 1]}), ([FIVE], {"sizes": [7], "axes": [0]}), ([FIVE], {"sizes": [7], "axes": [-1]}),
    ([FIVE], {"sizes": [3, 4, 5, 9, 2]}), ([FIVE], {"sizes": [7, 4, 9], "axes": [0, 1, 2]}), ([X], {"sizes": [4, 5], "axes": [1, 0]}),
    ([FIVE], {"scales": [2.0], "axes": [2]}),
])  # fmt: skip
def test_axes(samples, constants):
    compare(samples, **constants)


def test_axis_names():
    compare([X], layout="HW", sizes=[4, 5], axis_names="WH")
    compare([Y], layout="FHW", sizes=[4, 5], axis_names="HW")
    compare([Y], layout="HWC", sizes=[4, 5], axis_names="HW")


@pytest.mark.parametrize("rounding", ["round", "truncate", "ceil"])
def test_lengths(rounding):
    rng = np.random.default_rng(5)
    for _ in range(40):
        mode = str(rng.choice(["default", "stretch", "not_larger", "not_smaller"]))
        given = {"sizes": (rng.uniform(-12, 12, 2) * (rng.random(2) < 0.7)).round(1).tolist()}
        if not mode.startswith("not_") and rng.random() < 0.5:
            given = {"scales": (rng.uniform(-2, 2, 2) * (rng.random(2) < 0.7)).round(2).tolist()}
        more = {"max_size": rng.uniform(3, 9, 2).tolist()} if rng.random() < 0.3 else {}
        compare([X], 2e-5, mode=mode, size_rounding=rounding, **given, **more)


def test_regions_and_alignment():
    rng = np.random.default_rng(6)

    def signed(low, high):
        """Two numbers, each with a random sign."""
        return (rng.uniform(low, high, 2) * rng.choice([-1, 1], 2)).tolist()

    for _ in range(40):
        region = {"roi_start": rng.uniform(0, 6, 2).tolist(), "roi_end": rng.uniform(0, 6, 2).tolist()} if rng.random() < 0.6 else {}
        if region and rng.random() < 0.4:
            region = {"roi_start": [0.1, 0.7], "roi_end": [0.8, 0.2], "roi_relative": True}
        given = {"sizes": signed(0.6, 9)} if rng.random() < 0.6 else {"scales": signed(0.1, 2)}
        compare([X], 3e-5, alignment=rng.random(2).tolist(), subpixel_scale=bool(rng.random() < 0.8), antialias=False, **given, **region)


@pytest.mark.parametrize("kind", list(DALIInterpType), ids=lambda kind: kind.name)
def test_filters(kind):
    for sizes in ([3, 4, 9], [9, 3, 4], [11, 12, 13]):
        for antialias in (True, False):
            compare([Y], 2e-5, sizes=sizes, interp_type=kind, antialias=antialias)
    compare([X], 2e-5, sizes=[3, 4], min_filter=kind)
    compare([X], 2e-5, sizes=[9, 13], mag_filter=kind)
    compare([FIVE], 2e-5, sizes=[7, 8, 9], axes=[1, 2, 3], interp_type=kind)


@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint16", "float32"])
def test_types(dtype):
    data = [(Y * 200).astype(dtype), (Y[:, :3] * 100).astype(dtype)]
    compare(data, 1 if dtype != "float32" else 1e-4, sizes=[4, 5, 6])
    compare(data, 1e-4, sizes=[4, 5, 6], dtype=DALIDataType.FLOAT)


def test_per_sample():
    samples = [X, X[:4].copy(), X[:, :3].copy()]
    compare(samples, per_sample={"sizes": np.float32([[3, 4], [5, 6], [6, 2]])})
    compare(samples, per_sample={"scales": np.float32([[0.5, 2], [1.5, 1], [1, 1]])})
    compare(samples, per_sample={"sizes": np.float32([3, 5, 9])})
    compare(samples, per_sample={"alignment": np.float32([[0, 1], [0.5, 0.5], [1, 0.25]])}, sizes=[4.6, 3.3])
    regions = {"roi_start": np.float32([[0, 1], [1, 1], [2, 0]]), "roi_end": np.float32([[3, 4], [2, 5], [1, 3]])}
    compare(samples, per_sample=regions, sizes=[4, 5])


def test_refused():
    for constants in (
        {}, {"sizes": [2, 3], "scales": [1, 1]}, {"sizes": [2, 3], "axes": [0]}, {"sizes": [2, 3], "axes": [0, 0]},
        {"sizes": [2, 3], "mode": "foo"}, {"scales": [2, 3], "mode": "not_larger"}, {"sizes": [2, 3], "size_rounding": "floor"},
        {"sizes": [2, 3], "dtype": DALIDataType.INT32}, {"sizes": [2], "axis_names": "X"}, {"sizes": [2, 3], "roi_start": [1, 1]},
        {"sizes": [2], "axes": [1], "axis_names": "W"}, {"sizes": [2, 3], "max_size": [3, 3, 3]},
    ):  # fmt: skip
        assert_both_refuse(NAME, [X], "HW", **constants)
    assert_both_refuse(NAME, [FIVE[0]], sizes=[2, 2, 2, 3])
    assert_both_refuse(NAME, [X.astype(np.float64)], sizes=[2, 2])
