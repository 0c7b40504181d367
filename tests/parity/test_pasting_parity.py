"""paste, bbox_paste, grid_mask and sequence_rearrange beside DALI's."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import operators as harness
from helpers.parity import assert_both_refuse, dali_output, same

pytest.importorskip("nvidia.dali")


def pictures(rng, channels=3, count=6):
    return [rng.integers(0, 256, (*rng.integers(1, 12, 2), channels)).astype(np.uint8) for _ in range(count)]


@pytest.mark.parametrize("seed", range(6))
def test_paste(seed):
    rng = np.random.default_rng(seed)
    per_sample = {
        "ratio": rng.uniform(1, 3, 6).astype(np.float32), "paste_x": rng.random(6).astype(np.float32),
        "paste_y": rng.random(6).astype(np.float32), "min_canvas_size": rng.uniform(0, 20, 6).astype(np.float32),
    }  # fmt: skip
    channels = 1 + seed % 4
    constants = {"fill_value": [int(x) for x in rng.integers(-300, 600, channels)] if seed % 2 else 77, "n_channels": channels}
    data = pictures(rng, channels)
    same(dali_output("paste", data, "HWC", per_sample, **constants), harness.run("paste", data, "HWC", per_sample, **constants))


@pytest.mark.parametrize("ltrb", [True, False])
def test_bbox_paste(ltrb):
    rng = np.random.default_rng(1)
    boxes = [rng.random((n, 4)).astype(np.float32) for n in (1, 5, 0, 17, 3, 2)]
    per_sample = {name: rng.random(6).astype(np.float32) for name in ("paste_x", "paste_y")}
    per_sample["ratio"] = rng.uniform(1, 4, 6).astype(np.float32)
    theirs = dali_output("bbox_paste", boxes, "", per_sample, ltrb=ltrb)
    ours = harness.run("bbox_paste", boxes, "", per_sample, ltrb=ltrb)
    for a, b in zip(theirs, ours, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        np.testing.assert_allclose(b, a, rtol=3e-7, atol=1e-7)


@pytest.mark.parametrize("dtype", ["uint8", "float32", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("int16", "int32"))])
@pytest.mark.parametrize("layout, shape", [("HWC", (31, 40, 3)), ("", (31, 40, 1)), ("HWC", (31, 40, 5))])
def test_grid_mask(dtype, layout, shape):
    rng = np.random.default_rng(2)
    data = [rng.integers(1, 100, shape).astype(dtype) for _ in range(5)]
    per_sample = {
        "tile": rng.integers(2, 30, 5).astype(np.int32), "ratio": rng.random(5).astype(np.float32),
        "angle": rng.uniform(-4, 4, 5).astype(np.float32), "shift_x": rng.uniform(-50, 50, 5).astype(np.float32),
        "shift_y": rng.uniform(-50, 50, 5).astype(np.float32),
    }  # fmt: skip
    theirs, ours = dali_output("grid_mask", data, layout, per_sample), harness.run("grid_mask", data, layout, per_sample)
    wrong = sum(int((a != b).sum()) for a, b in zip(theirs, ours, strict=True))
    assert wrong <= 2, wrong  # The last bit of a cosine decides about pixels on the edge of a square.
    same(dali_output("grid_mask", data, layout), harness.run("grid_mask", data, layout))


@pytest.mark.parametrize("layout, shape", [("FHWC", (5, 3, 4, 3)), ("", (5, 2)), ("FX", (5, 0))])
def test_sequence_rearrange(layout, shape):
    rng = np.random.default_rng(3)
    data = [rng.integers(0, 100, shape).astype(np.int16) for _ in range(4)]
    orders = [rng.integers(0, 5, n).astype(np.int32) for n in (1, 5, 8, 3)]
    theirs = dali_output("sequence_rearrange", data, layout, {"new_order": orders})
    for sample, order, expected in zip(data, orders, theirs, strict=True):
        (ours,) = harness.run("sequence_rearrange", [sample], layout, {"new_order": [order]})
        np.testing.assert_array_equal(ours, expected)
    order = {"new_order": [4, 4, 0]}
    same(dali_output("sequence_rearrange", data, layout, **order), harness.run("sequence_rearrange", data, layout, **order))


@pytest.mark.parametrize("layout, order", [("CHW", (2, 0, 1)), ("FHWC", None), ("HW", None)])
def test_grid_mask_follows_the_layout(layout, order):
    data = np.random.default_rng(5).integers(1, 100, (31, 40, 3)).astype(np.uint8)
    constants = {"tile": 7, "ratio": 0.4, "angle": 0.3, "shift_x": 2.0}
    (wanted,) = harness.run("grid_mask", [data], "HWC", **constants)
    if layout == "CHW":
        (result,) = harness.run("grid_mask", [np.ascontiguousarray(data.transpose(order))], layout, **constants)
        np.testing.assert_array_equal(result.transpose(1, 2, 0), wanted)
    elif layout == "FHWC":
        (result,) = harness.run("grid_mask", [np.stack([data, data])], layout, **constants)
        np.testing.assert_array_equal(result, np.stack([wanted, wanted]))
    else:
        np.testing.assert_array_equal(harness.run("grid_mask", [data[..., 0]], layout, **constants)[0], wanted[..., 0])


@pytest.mark.parametrize(
    "name, shape, dtype, layout, constants", [
        ("paste", (5, 7, 3), "uint8", "HWC", {"ratio": 0.5, "fill_value": 0}),
        ("paste", (5, 7, 3), "float32", "HWC", {"ratio": 2.0, "fill_value": 0}),
        ("paste", (3, 5, 7), "uint8", "CHW", {"ratio": 2.0, "fill_value": 0}),
        ("paste", (5, 7, 3), "uint8", "HWC", {"ratio": 2.0, "fill_value": 0, "paste_x": 1.5}),
        ("bbox_paste", (2, 3), "float32", "", {"ratio": 2.0}), ("grid_mask", (5, 7, 3), "uint16", "HWC", {}),
        ("grid_mask", (5, 7, 3), "uint8", "HWC", {"tile": 0}), ("sequence_rearrange", (5, 2), "uint8", "HW", {"new_order": [0]}),
        ("sequence_rearrange", (5, 2), "uint8", "FW", {"new_order": [5]}),
        ("sequence_rearrange", (5, 2), "uint8", "FW", {"new_order": [-1]}),
    ],
)  # fmt: skip
def test_both_refuse(name, shape, dtype, layout, constants):
    assert_both_refuse(name, [np.zeros(shape, dtype)], layout, **constants)
