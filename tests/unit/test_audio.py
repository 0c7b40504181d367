"""Audio operators against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import operators as harness
from helpers.pipelines import pipeline_of

from asyncdali import fn
from asyncdali.types import INT16


def signal(n, seed=0):
    return np.random.default_rng(seed).standard_normal(n).astype(np.float32)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 12, 31, 64, 100, 257, 1000, 1024])
def test_transforms_of_any_length(n):
    data = signal(n)
    (result,) = harness.run("power_spectrum", [data])
    expected = np.abs(np.fft.rfft(data.astype(np.float64))) ** 2
    np.testing.assert_allclose(result, expected, rtol=2e-6, atol=2e-6 * expected.max())


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


def test_the_usual_chain():
    def graph():
        audio = fn.external_source(lambda: [signal(3000 + 100 * k, k) for k in range(3)])
        audio = fn.preemphasis_filter(audio)
        mel = fn.mel_filter_bank(fn.spectrogram(audio, nfft=400, window_length=400, window_step=160), nfilter=40, sample_rate=16000.0)
        return fn.mfcc(fn.to_decibels(mel, multiplier=10.0, cutoff_db=-80.0), n_mfcc=13, normalize=True)

    with pipeline_of(graph) as pipeline:
        (result,) = pipeline.run()
        assert [tuple(shape) for shape in result.shape()] == [(13, 19), (13, 20), (13, 21)]
        assert all(np.isfinite(np.asarray(sample)).all() for sample in result)


def test_preemphasis_of_short_signals_and_integers():
    for border, first in (("zero", 5.0), ("clamp", 2.5), ("reflect", 2.5)):
        (result,) = harness.run("preemphasis_filter", [np.array([5], np.int16)], border=border, preemph_coeff=0.5)
        assert result.tolist() == [first]
    (result,) = harness.run("preemphasis_filter", [np.array([100, -32768, 32767], np.int16)], dtype=INT16, preemph_coeff=0.5, border="zero")
    assert result.tolist() == [100, -32768, 32767]


def test_nonsilent_region():
    data = np.zeros(1000, np.int16)
    data[300:500] = 1000
    begin, length = harness.run_all("nonsilent_region", [data], window_length=1, reset_interval=-1, cutoff_db=-20.0)
    assert (int(begin[0]), int(length[0])) == (300, 200)
    begin, length = harness.run_all("nonsilent_region", [data], window_length=10, reset_interval=-1, cutoff_db=-20.0)
    assert (int(begin[0]), int(length[0])) == (300 - 9, 200 + 18)
    begin, length = harness.run_all("nonsilent_region", [data], window_length=10, reset_interval=-1, reference_power=1e14)
    assert int(length[0]) == 0


@pytest.mark.parametrize("constants", [{"window_length": 0}, {"window_length": 10, "reset_interval": 15}, {"reference_power": -1.0}])
def test_nonsilent_region_refuses(constants):
    with pytest.raises(ValueError, match=r"window_length|reset_interval|reference_power"):
        harness.run("nonsilent_region", [np.zeros(9, np.float32)], **constants)


def test_decibels_refuse_a_multiplier_of_0():
    with pytest.raises(ValueError, match="multiplier"):
        harness.run("to_decibels", [np.ones(3, np.float32)], multiplier=0.0)
