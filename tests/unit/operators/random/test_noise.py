"""Noise operators: moments, replaced pixels, and checkpoints."""

from __future__ import annotations

import numpy as np
from helpers import operators as harness
from helpers.pipelines import pipeline_of

from asyncdali import fn


def test_gaussian_noise_has_its_moments():
    (result,) = harness.run("noise.gaussian", [np.zeros(100_000, np.float32)], mean=3.0, stddev=2.0, seed=4)
    assert abs(result.mean() - 3) < 0.05 and abs(result.std() - 2) < 0.05
    (rounded,) = harness.run("noise.gaussian", [np.full(100_000, 250, np.uint8)], stddev=20.0, seed=4)
    assert rounded.max() == 255 and (rounded == 255).mean() > 0.3


def test_shot_noise_has_the_variance_of_counted_events():
    for level, factor in ((20.0, 4.0), (500.0, 4.0)):  # small and large means are drawn by different methods
        (result,) = harness.run("noise.shot", [np.full(50_000, level, np.float32)], factor=factor, seed=4)
        assert abs(result.mean() - level) < 0.02 * level and abs(result.var() / (level * factor) - 1) < 0.05
        assert np.unique(result % factor).tolist() == [0]
    (nothing,) = harness.run("noise.shot", [np.full(10, -5.0, np.float32)], seed=4)
    assert (nothing == 0).all()


def test_salt_and_pepper_replaces_the_given_share_of_pixels():
    data = [np.full((100, 100, 3), 7, np.int16)]
    (result,) = harness.run("noise.salt_and_pepper", data, "HWC", prob=0.3, salt_vs_pepper=0.25, salt_val=1.0, pepper_val=-1.0, seed=2)
    assert set(np.unique(result)) == {-1, 1, 7}
    assert (result == result[..., :1]).all()
    assert abs((result != 7).mean() - 0.3) < 0.02 and abs((result == 1).mean() / 0.3 - 0.25) < 0.03
    (single,) = harness.run("noise.salt_and_pepper", data, "HWC", prob=0.3, per_channel=True, seed=2)
    assert not (single == single[..., :1]).all()
    (untouched,) = harness.run("noise.salt_and_pepper", data, "HWC", prob=0.0)
    np.testing.assert_array_equal(untouched, data[0])


def test_a_checkpoint_restores_the_noise():
    source = np.full((4, 5, 3), 100, np.uint8)

    def graph():
        return fn.noise.gaussian(source, stddev=30.0), fn.noise.shot(source), fn.noise.salt_and_pepper(source, prob=0.4)

    pipeline = pipeline_of(graph, enable_checkpointing=True)
    pipeline.run()
    state = pipeline.checkpoint()
    wanted = [output.as_array().copy() for output in pipeline.run()]
    again = pipeline_of(graph, enable_checkpointing=True, checkpoint=state)
    for got, expected in zip(again.run(), wanted, strict=True):
        np.testing.assert_array_equal(got.as_array(), expected)


def test_shot_noise_of_any_number_ends():
    """Rejection draws counts below 2**32 only. Larger means have the normal distribution; infinite ones give 0, as in DALI."""
    numbers = np.array([np.inf, -np.inf, np.nan, -5.0, 0.0, 1e30, 3e38, 1e12], np.float32).reshape(1, 8, 1)
    (result,) = harness.run("noise.shot", [numbers], "HWC", factor=20.0, seed=3)
    assert not result[0, :5].any()
    np.testing.assert_allclose(result[0, 5:, 0], numbers[0, 5:, 0], rtol=1e-4)
    (tiny,) = harness.run("noise.shot", [np.full((50, 50, 1), 200, np.uint8)], "HWC", factor=1e-9, seed=3)
    np.testing.assert_array_equal(tiny, 200)
    (many,) = harness.run("noise.shot", [np.full((100, 100, 1), 1e11, np.float32)], "HWC", factor=1.0, seed=4)
    assert abs(many.std() / np.sqrt(1e11) - 1) < 0.05
