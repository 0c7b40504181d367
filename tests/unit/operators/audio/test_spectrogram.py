"""spectrogram and power_spectrum beside NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import operators as harness
from helpers.pipelines import pipeline_of

from asyncdali import fn


def signal(n, seed=0):
    return np.random.default_rng(seed).standard_normal(n).astype(np.float32)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 12, 31, 64, 100, 257, 1000, 1024])
def test_transforms_of_any_length(n):
    data = signal(n)
    (result,) = harness.run("power_spectrum", [data])
    expected = np.abs(np.fft.rfft(data.astype(np.float64))) ** 2
    np.testing.assert_allclose(result, expected, rtol=2e-6, atol=2e-6 * expected.max())


@pytest.mark.parametrize("n", [3, 7, 9, 14, 26, 401, 2047, 2049])
@pytest.mark.parametrize("shape", [(1,), (19,), (3, 2), (2, 9)])
def test_lengths_without_a_plan_of_stages(n, shape):
    """Along every axis, with full and partial vectors. 2,049 is the first length that is computed as a convolution."""
    data = np.random.default_rng(n).standard_normal((*shape, n)).astype(np.float32)
    for axis in range(len(shape) + 1):
        moved = np.ascontiguousarray(np.moveaxis(data, -1, axis))
        for power in (1, 2):
            (found,) = harness.run("power_spectrum", [moved], axis=axis, power=power)
            expected = np.abs(np.fft.rfft(moved.astype(np.float64), axis=axis)) ** power
            np.testing.assert_allclose(found, expected, rtol=2e-7, atol=1e-10 * expected.max())


@pytest.mark.parametrize("nfft, length", [(13, 9), (13, 20), (22, 9), (22, 11), (22, 12), (22, 40)])
def test_rows_that_are_truncated_or_padded(nfft, length):
    data = signal(5 * length).reshape(5, length)
    (found,) = harness.run("power_spectrum", [data], nfft=nfft)
    np.testing.assert_allclose(found, np.abs(np.fft.rfft(data.astype(np.float64), nfft)) ** 2, rtol=2e-7, atol=1e-10)


def test_negative_axes_count_from_the_end():
    data = signal(6 * 8 * 5).reshape(6, 8, 5)
    np.testing.assert_array_equal(harness.run("power_spectrum", [data], axis=-2)[0], harness.run("power_spectrum", [data], axis=1)[0])
    assert harness.run("power_spectrum", [data], axis=-2)[0].shape == (6, 5, 5)


def test_a_tone_is_in_its_bin():
    rate, frequency = 16000, 1000
    tone = np.sin(2 * np.pi * frequency * np.arange(rate) / rate).astype(np.float32)
    with pipeline_of(lambda: fn.spectrogram(fn.external_source(lambda: [tone] * 3), nfft=512, layout="tf")) as pipeline:
        (spectrum,) = pipeline.run()
        assert spectrum.layout() == "tf"
        assert (np.asarray(spectrum[0]).argmax(axis=1)[2:-2] == frequency * 512 // rate).all()


@pytest.mark.parametrize("n", [1, 2, 5, 7, 8, 31, 2049])
def test_an_axis_without_elements_is_filled_with_zeros(n):
    for shape, axis in (((3, 0), 1), ((0, 3), 0)):
        (result,) = harness.run("power_spectrum", [np.zeros(shape, np.float32)], nfft=n, axis=axis)
        assert result.shape == ((3, n // 2 + 1) if axis else (n // 2 + 1, 3)) and not result.any()
