"""Kernels of the audio operators, compiled for the host, equal the compiled steps: operations and their order are the same."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import kernels
from helpers.twins import assert_near, both, outputs_of

from asyncdali import types

pytestmark = pytest.mark.skipif(kernels.COMPILER is None, reason="no C++ compiler to build kernels for the host")
SLOW = pytest.mark.slow


def signals(rng, *lengths, dtype=np.float32):
    return [(rng.normal(0, 0.3, length) * (1 if np.dtype(dtype).kind == "f" else 300)).astype(dtype) for length in lengths]


@pytest.mark.parametrize(
    "constants",
    [
        {"window_length": 32, "window_step": 10}, {"window_length": 25, "window_step": 13, "layout": "tf", "power": 1},
        pytest.param({"nfft": 128, "window_length": 50, "window_step": 40, "center_windows": False}, marks=SLOW),
        pytest.param({"window_length": 16, "reflect_padding": False}, marks=SLOW),
        pytest.param({"window_length": 1500, "window_step": 400}, marks=SLOW),  # too long for shared memory
        pytest.param({"nfft": 4096, "window_length": 1000, "window_step": 700}, marks=SLOW),
        pytest.param({"nfft": 1, "window_length": 1}, marks=SLOW),
    ],
)  # fmt: skip
def test_spectrogram(constants):
    rng = np.random.default_rng(1)
    lengths = (3000, 1700) if constants["window_length"] >= 1000 else (200, 61)
    assert_near(*both("spectrogram", signals(rng, *lengths), "", **constants))


def test_matrices():
    rng = np.random.default_rng(2)
    spectra = [np.abs(rng.normal(size=(33, frames))).astype(np.float32) for frames in (7, 1, 90)]
    assert_near(*both("mel_filter_bank", spectra, "ft", nfilter=12, sample_rate=16000.0))
    assert_near(*both("mfcc", spectra, "ft", n_mfcc=13, lifter=22.0))
    assert_near(*both("mfcc", [np.ascontiguousarray(each.T) for each in spectra], "tf", axis=1, dct_type=3, normalize=True))


@pytest.mark.parametrize("constants", [{}, pytest.param({"reference": 0.7, "multiplier": 20.0, "cutoff_db": -40.0}, marks=SLOW)])
def test_to_decibels(constants):
    rng = np.random.default_rng(3)
    samples = [np.abs(rng.normal(size=shape)).astype(np.float32) for shape in ((33, 7), (1, 1), (70, 300))]
    samples.append(np.zeros((3, 4), np.float32))
    assert_near(*both("to_decibels", samples, "ft", **constants))


@pytest.mark.parametrize("dtype, out", [("float32", types.FLOAT), *[pytest.param(a, b, marks=SLOW) for a, b in (
    ("int16", types.FLOAT), ("int16", types.INT16), ("uint64", types.FLOAT64), ("float64", types.UINT8))]])  # fmt: skip
@pytest.mark.parametrize("border", ["reflect", pytest.param("zero", marks=SLOW), pytest.param("clamp", marks=SLOW)])
def test_preemphasis_filter(dtype, out, border):
    rng = np.random.default_rng(4)
    samples = signals(rng, 300, 1, 0, 2, dtype=dtype)
    coefficients = {"preemph_coeff": rng.uniform(0, 1, 4).astype(np.float32)}
    assert_near(*both("preemphasis_filter", samples, "", coefficients, border=border, dtype=out))


@pytest.mark.parametrize("dtype", ["float32", "int16", pytest.param("int32", marks=SLOW), pytest.param("uint8", marks=SLOW)])
@pytest.mark.parametrize(
    "constants",
    [
        {"window_length": 20, "reset_interval": 60}, {"window_length": 20, "reset_interval": 60, "exact": True},
        {"window_length": 64, "reset_interval": -1, "cutoff_db": -20.0},
        {"window_length": 9000, "reset_interval": 9000},
        {"window_length": 5, "reset_interval": 5, "reference_power": 0.01, "cutoff_db": 3.0},
    ],
)  # fmt: skip
def test_nonsilent_region(dtype, constants):
    """Signals with silence before, after and between sounds, a signal shorter than the window, and a silent signal."""
    rng = np.random.default_rng(4)
    loud = signals(rng, 700, 20011, 3, 1, dtype=dtype)
    for signal, spans in ((loud[0], [(0, 150), (300, 420), (600, 700)]), (loud[1], [(0, 9000), (15000, 20011)])):
        for begin, end in spans:
            signal[begin:end] = 0
    loud.append(np.zeros(200, dtype))
    by_step, by_kernels = (outputs_of("nonsilent_region", [loud], "", None, gpu, **constants) for gpu in (False, True))
    for expected, found in zip(by_step, by_kernels, strict=True):
        assert [int(x) for x in expected] == [int(x) for x in found]
    if "reference_power" not in constants:
        assert 0 < int(by_step[0][1]) <= 9000 and 6000 < int(by_step[1][1]) < 20011
