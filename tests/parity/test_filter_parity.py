"""filter beside DALI's for two axes, as DALI's CPU operator has no more. Volumes are compared with NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.parity import dali_outputs, same
from helpers.pipelines import pipeline_of

from asyncdali import fn
from asyncdali.types import FLOAT

pytest.importorskip("nvidia.dali")
LAYOUTS = [("HWC", (9, 11, 3)), ("CHW", (2, 9, 11)), ("FHWC", (2, 9, 11, 3)), ("FCHW", (2, 3, 9, 11)), ("HW", (9, 11)), ("", (7, 2))]


def feeder(samples):
    return lambda: samples


def ours(inputs, layout, per_sample=None, **constants):
    def graph():
        nodes = [fn.external_source(feeder(samples), layout=layout if k == 0 else None) for k, samples in enumerate(inputs)]
        named = {key: fn.external_source(feeder(list(values))) for key, values in (per_sample or {}).items()}
        return fn.filter(*nodes, **named, **constants)

    with pipeline_of(graph, batch_size=len(inputs[0])) as pipeline:
        (output,) = pipeline.run()
        return [np.array(output.at(i)) for i in range(len(inputs[0]))]


def check(inputs, layout, per_sample=None, **constants):
    (theirs,) = dali_outputs("filter", inputs, [layout, *[""] * (len(inputs) - 1)], per_sample, **constants)
    mine = ours(inputs, layout, per_sample, **constants)
    if mine[0].dtype == np.float32:
        for a, b in zip(theirs, mine, strict=True):
            assert a.shape == b.shape and a.dtype == b.dtype
            np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-5 * max(np.abs(a).max(initial=0), 1))
    else:
        same(theirs, mine)


def batch(rng, shape, dtype):
    data = [rng.integers(0, 200, shape).astype(dtype) for _ in range(4)]
    sizes = [(3, 3), (1, 4), (2, 1), (5, 6)]
    return data, [(rng.standard_normal(size) / 3).astype(np.float32) for size in sizes]


@pytest.mark.parametrize("layout, shape", LAYOUTS)
@pytest.mark.parametrize("border", ["reflect_101", "reflect_1001", "wrap", "clamp", "constant"])
def test_borders_and_layouts(layout, shape, border):
    rng = np.random.default_rng(1)
    for dtype in ("uint8", "float32"):
        data, filters = batch(rng, shape, dtype)
        check([data, filters], layout, border=border)


@pytest.mark.parametrize("dtype", ["uint8", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("int16", "uint16", "float32"))])
def test_types_anchors_fills_and_modes(dtype):
    rng = np.random.default_rng(2)
    data, filters = batch(rng, (9, 11, 3), dtype)
    anchors = {"anchor": np.array([[0, 2], [0, -1], [1, 0], [4, 5]], np.int32)}
    check([data, filters], "HWC", anchors)
    check([data, filters], "HWC", dtype=FLOAT)
    check([data, filters], "HWC", mode="valid")
    fills = [np.array(k * 20, dtype) for k in range(4)]
    check([data, filters, fills], "HWC", anchors, border="constant")


def test_a_fill_value_without_effect_gives_a_warning():
    data, filters = batch(np.random.default_rng(4), (9, 11, 3), "uint8")
    fills = [np.array(k * 20, np.uint8) for k in range(4)]
    for constants in ({}, {"mode": "valid"}, {"border": "clamp"}):
        with pytest.warns(UserWarning, match="the fill value, has no effect"):
            check([data, filters, fills], "HWC", **constants)


def test_volumes():
    rng = np.random.default_rng(3)
    volume, kernel = rng.random((5, 6, 7, 2)).astype(np.float32), rng.random((2, 3, 4)).astype(np.float32)
    (result,) = ours([[volume], [kernel]], "DHWC", border="clamp")
    padded = np.pad(volume, [(1, 0), (1, 1), (2, 1), (0, 0)], mode="edge")
    wanted = sum(
        kernel[z, y, x] * padded[z : z + 5, y : y + 6, x : x + 7] for z in range(2) for y in range(3) for x in range(4)
    )
    np.testing.assert_allclose(result, wanted, rtol=1e-5)


@pytest.mark.parametrize(
    "layout, shape, size, constants", [
        ("HWC", (9, 9, 3), (3, 3, 3), {}), ("HWC", (9, 9, 3), (3, 3), {"border": "mirror"}), ("HWC", (9, 9, 3), (3, 3), {"mode": "full"}),
        ("HWC", (9, 9, 3), (3, 3), {"anchor": [3, 0]}), ("CFHW", (3, 2, 9, 9), (3, 3), {}),
        ("HWC", (4, 9, 3), (5, 3), {"mode": "valid"}),
    ],
)  # fmt: skip
def test_both_refuse(layout, shape, size, constants):
    inputs = [[np.zeros(shape, np.uint8)], [np.zeros(size, np.float32)]]
    with pytest.raises((RuntimeError, ValueError)):
        dali_outputs("filter", inputs, [layout, ""], **constants)
    with pytest.raises((RuntimeError, ValueError)):
        ours(inputs, layout, **constants)
