"""optical_flow: known movements are found, and arguments have an effect."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from helpers.operators import run_operator
from helpers.pipelines import pipeline_of

from asyncdali import fn, types
from asyncdali.errors import SampleError


def moving(dx, dy, frames=3, height=96, width=112, channels=3):
    """A smooth random picture that moves by (dx, dy) pixels per frame."""
    rng = np.random.default_rng(1)
    large = cv2.GaussianBlur(rng.integers(0, 256, (height + 60, width + 60, channels)).astype(np.float32), (0, 0), 2.5)
    large = cv2.normalize(large, None, 0, 255, cv2.NORM_MINMAX).astype(np.uint8).reshape(height + 60, width + 60, channels)
    return np.stack([large[30 - k * dy : 30 - k * dy + height, 30 - k * dx : 30 - k * dx + width] for k in range(frames)])


@pytest.mark.parametrize("preset", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("grid", [1, 2, 4])
def test_movement_is_found(preset, grid):
    frames = moving(3, -2)
    (flow,) = run_operator("optical_flow", [frames], preset=preset, output_grid=grid)
    assert flow.shape == (2, -(-96 // grid), -(-112 // grid), 2) and flow.dtype == np.float32
    inside = flow[:, 16 // grid : -16 // grid, 16 // grid : -16 // grid]
    assert np.abs(np.median(inside, axis=(1, 2)) - [3, -2]).max() < 0.3


def test_cells_are_means():
    frames = moving(1, 2, 2, 50, 47)
    (fine,), (coarse,) = (run_operator("optical_flow", [frames], output_grid=grid) for grid in (1, 4))
    assert coarse.shape == (1, 13, 12, 2)
    np.testing.assert_allclose(coarse[0, 3, 5], fine[0, 12:16, 20:24].mean(axis=(0, 1)), atol=1e-4)
    np.testing.assert_allclose(coarse[0, 12, 11], fine[0, 48:50, 44:47].mean(axis=(0, 1)), atol=1e-4)


def test_hints_and_kinds_of_images():
    frames = moving(14, 0, 3, channels=1)
    plain = run_operator("optical_flow", [frames], image_type=types.GRAY)[0]
    hints = np.zeros((2, 12, 14, 2), np.float32)
    hints[..., 0] = 14
    hinted = run_operator("optical_flow", [frames], [hints], image_type=types.GRAY, enable_external_hints=True, hint_grid=8)[0]
    temporal = run_operator("optical_flow", [frames], image_type=types.GRAY, enable_temporal_hints=True)[0]
    assert np.abs(np.median(hinted[:, 4:-4, 6:-6], axis=(1, 2)) - [14, 0]).max() < 0.5
    assert not np.array_equal(plain, hinted) and np.array_equal(plain[0], temporal[0]) and not np.array_equal(plain[1], temporal[1])
    colour = moving(2, 1)
    alpha = np.concatenate([colour, np.zeros_like(colour[..., :1])], axis=-1)
    rgb, bgr, rgba = (
        run_operator("optical_flow", [data], image_type=kind)[0]
        for data, kind in ((colour, types.RGB), (np.ascontiguousarray(colour[..., ::-1]), types.BGR), (alpha, types.RGB))
    )
    np.testing.assert_array_equal(rgb, bgr)
    np.testing.assert_array_equal(rgb, rgba)


def test_small_frames():
    (flow,) = run_operator("optical_flow", [np.zeros((2, 3, 5, 3), np.uint8)])
    assert flow.shape == (1, 1, 2, 2) and np.isfinite(flow).all()


def test_the_host_device():
    frames = moving(3, -2)

    def graph():
        data = fn.external_source(lambda: [frames], layout="FHWC")
        return fn.optical_flow(data), fn.optical_flow(data.gpu())

    with pipeline_of(graph, batch_size=1, device_id=0) as pipeline:
        cpu, gpu = pipeline.run()
        np.testing.assert_array_equal(np.asarray(cpu.at(0)), np.asarray(gpu.as_cpu().at(0)))


@pytest.mark.parametrize(
    "shape, arguments, text",
    [
        ((2, 20, 20, 3), {"output_grid": 8}, "`output_grid` must be one of 1, 2, 4, got 8"),
        ((2, 20, 20, 3), {"hint_grid": 3}, "`hint_grid`"),
        ((2, 20, 20, 3), {"preset": 1.5}, "`preset` must be 0.0 to 1.0"), ((1, 20, 20, 3), {}, "at least 2 frames"),
        ((2, 20, 20, 2), {}, "of 3 or 4 channels"), ((2, 20, 20, 3), {"enable_external_hints": True}, "must be given together"),
    ],
)  # fmt: skip
def test_wrong_arguments_and_inputs(shape, arguments, text):
    with pytest.raises((ValueError, SampleError), match=text):
        run_operator("optical_flow", [np.zeros(shape, np.uint8)], **arguments)
