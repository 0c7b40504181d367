"""mel_filter_bank: triangles on the mel scale, and refusals."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import operators as harness


def test_a_tone_is_in_the_filter_of_its_frequency():
    rate, bins, count = 16000.0, 257, 20
    spectrum = np.zeros((bins, bins), np.float32)
    np.fill_diagonal(spectrum, 1)  # column k has energy in bin k only
    (found,) = harness.run("mel_filter_bank", [spectrum], "ft", nfilter=count, sample_rate=rate, freq_high=8000.0, mel_formula="htk")
    assert found.shape == (count, bins) and (found >= 0).all()
    mel = 2595 * np.log10(1 + np.arange(bins) * rate / 2 / (bins - 1) / 700)
    place = mel / (2595 * np.log10(1 + 8000 / 700)) * (count + 1) - 1  # the frequency is between the centres of the filters
    inside = (place > 0) & (place < count - 1)
    strongest = found.argmax(axis=0)[inside]
    assert (np.abs(strongest - place[inside]) <= 1).all()


def test_frequencies_in_wrong_order_are_refused():
    with pytest.raises(ValueError, match="freq_high"):
        harness.run("mel_filter_bank", [np.ones((9, 3), np.float32)], "ft", sample_rate=8000.0, freq_low=3000.0, freq_high=2000.0)
