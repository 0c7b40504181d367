"""optical_flow: the kernels, compiled for the host, equal the compiled step."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import kernels
from helpers.twins import both

from asyncdali import fn, pipeline_def, types

pytestmark = pytest.mark.skipif(kernels.COMPILER is None, reason="no C++ compiler to build kernels for the host")


def moving(seed, frames, height, width, channels=3):
    """Blurred noise that moves by two pixels per frame. A part of it moves in the opposite direction."""
    rng = np.random.default_rng(seed)
    noise = rng.integers(0, 256, (height + 20, width + 20, channels)).astype(np.float32)
    for axis in (0, 1):
        noise = (noise + np.roll(noise, 1, axis) + np.roll(noise, 2, axis)) / 3
    made = np.stack([noise[10 - k : 10 - k + height, 2 * k : 2 * k + width] for k in range(frames)])
    made[:, height // 3 : height // 2, width // 3 : width // 2] = 200 - made[:, height // 3 : height // 2, width // 3 : width // 2] / 2
    return made.clip(0, 255).astype(np.uint8)


def assert_equal(pairs):
    for one, other in zip(*pairs, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("preset, grid", [(0.0, 1), (0.5, 2), (1.0, 4)])
def test_as_the_compiled_step(preset, grid):
    """A batch of samples with several sizes and numbers of frames. Some samples are very small."""
    samples = [moving(1, 3, 40, 50), moving(2, 2, 5, 3), moving(3, 4, 17, 30), moving(4, 2, 65, 24)]
    assert_equal(both("optical_flow", samples, "FHWC", preset=preset, output_grid=grid))


@pytest.mark.parametrize("cell", [1, 4, 8])
def test_hints(cell):
    """Hints that are NaN or extreme are safe."""
    samples = [moving(5, 3, 33, 41, 1), moving(6, 2, 20, 18, 1)]
    rng = np.random.default_rng(7)
    hints = [rng.normal(0, 8, (len(s) - 1, -(-s.shape[1] // cell), -(-s.shape[2] // cell), 2)).astype(np.float32) for s in samples]
    for own in hints:
        own.reshape(-1)[:: 7] = np.resize(np.array([np.nan, np.inf, -np.inf, 3e38, -1e30, 9000], np.float32), own.reshape(-1)[::7].size)
    given = {"enable_external_hints": True, "hint_grid": cell, "image_type": types.GRAY}
    pairs = both("optical_flow", samples, "FHWC", more=(hints,), **given)
    assert_equal(pairs)
    assert all(np.isfinite(flow).all() for flow in pairs[0])


def test_temporal_hints_and_colours():
    samples = [moving(8, 4, 30, 30), moving(9, 3, 22, 40)]
    assert_equal(both("optical_flow", samples, "FHWC", enable_temporal_hints=True, image_type=types.BGR))
    assert_equal(both("optical_flow", [np.concatenate([s, s[..., :1]], -1) for s in samples], "FHWC"))


def test_pairs_in_several_turns(monkeypatch):
    """There is work memory for fewer pairs of frames than the input has, so the pairs are computed in several turns."""
    from asyncdali.operators.sequences import optical_flow_kernels

    monkeypatch.setattr(optical_flow_kernels, "_MEMORY_AT_ONCE", 100_000)
    assert_equal(both("optical_flow", [moving(10, 6, 18, 25), moving(11, 3, 30, 16)], "FHWC"))


def test_flat_and_extreme_pictures():
    rng = np.random.default_rng(12)
    flat = np.full((2, 30, 30, 3), 128, np.uint8)
    noise = (rng.random((2, 30, 30, 3)) < 0.5).astype(np.uint8) * 255
    pairs = both("optical_flow", [flat, noise], "FHWC")
    assert_equal(pairs)
    assert not pairs[0][0].any() and np.isfinite(pairs[0][1]).all()


def test_pipeline(cuda):
    frames = [moving(20 + k, 3, 24 + k, 30) for k in range(2)]

    @pipeline_def(batch_size=2, num_threads=2, device_id=0)
    def graph():
        data = fn.external_source(lambda: frames, layout="FHWC")
        return fn.optical_flow(data), fn.optical_flow(data.gpu())

    pipe = graph()
    pipe.build()
    for _ in range(2):
        here, there = pipe.run()
        for one, other in zip(here, there.as_cpu(), strict=True):
            np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
    pipe.close()
