"""Audio operators beside DALI's. Where asyncdali computes in float64, DALI computes in float32."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import operators as harness
from helpers.parity import assert_both_refuse, dali_output, dali_outputs

pytest.importorskip("nvidia.dali")


def close(name, samples, layout="", tolerance=2e-5, **constants):
    theirs, ours = dali_output(name, samples, layout, **constants), harness.run(name, samples, layout, **constants)
    for a, b in zip(theirs, ours, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        assert np.abs(a.astype(np.float64) - b).max(initial=0) <= tolerance * np.abs(a.astype(np.float64)).max(initial=0)


def signals():
    rng = np.random.default_rng(1)
    return [rng.standard_normal(n).astype(np.float32) for n in (4000, 600, 100)]


@pytest.mark.parametrize(
    "constants", [
        {}, {"power": 1}, {"nfft": 1024}, {"nfft": 600}, {"window_length": 400, "window_step": 160}, {"reflect_padding": False},
        {"window_length": 401, "window_step": 160, "nfft": 512}, {"window_length": 3, "window_step": 2, "window_fn": [0.1, 0.5, 1.0]},
        {"window_length": 7, "window_step": 100}, {"center_windows": False, "window_length": 90, "window_step": 77},
    ],
)  # fmt: skip
def test_spectrogram(constants):
    close("spectrogram", signals(), **constants)


def test_spectrogram_of_signals_with_an_axis_for_channels():
    close("spectrogram", [signal[:, None] for signal in signals()])
    close("spectrogram", [signal[None] for signal in signals()])


@pytest.mark.parametrize(
    "constants", [{}, {"axis": 0}, {"axis": 1}, {"axis": 1, "nfft": 32}, {"axis": 1, "nfft": 16}, {"axis": 1, "power": 1}]
)
def test_power_spectrum(constants):
    close("power_spectrum", [np.random.default_rng(k).standard_normal((6, 20, 4)).astype(np.float32) for k in range(2)], **constants)


@pytest.mark.parametrize(
    "constants", [
        {}, {"nfilter": 40}, {"mel_formula": "htk"}, {"normalize": False}, {"nfilter": 300},
        {"sample_rate": 16000.0, "freq_low": 100.0, "freq_high": 7000.0},
    ],
)  # fmt: skip
def test_mel_filter_bank(constants):
    data = [np.random.default_rng(k).random((257, 9)).astype(np.float32) for k in range(2)]
    close("mel_filter_bank", data, "ft", **constants)
    close("mel_filter_bank", [np.ascontiguousarray(sample.T) for sample in data], "tf", **constants)
    close("mel_filter_bank", data, **constants)
    close("mel_filter_bank", [sample[:, 0].copy() for sample in data], **constants)


@pytest.mark.parametrize("kind", [1, 2, 3, 4])
def test_mfcc(kind):
    data = [np.random.default_rng(k).random((80, 9)).astype(np.float32) for k in range(2)]
    for constants in ({}, {"lifter": 22.0}, {"n_mfcc": 40}, {"n_mfcc": 400}, {"normalize": kind != 1}, {"lifter": -3.0}):
        close("mfcc", data, dct_type=kind, **constants)
    close("mfcc", data, axis=1, n_mfcc=5, dct_type=kind)


@pytest.mark.parametrize(
    "constants", [
        {}, {"multiplier": 20.0}, {"reference": 2.0}, {"cutoff_db": -10.0}, {"multiplier": 20.0, "cutoff_db": -5.0, "reference": 0.3},
    ],
)  # fmt: skip
def test_to_decibels(constants):
    data = [np.random.default_rng(k).random((5, 7)).astype(np.float32) for k in range(3)]
    close("to_decibels", [*data, np.zeros((5, 7), np.float32)], **constants)


@pytest.mark.parametrize("dtype", ["float32", "int16", *(pytest.param(dtype, marks=pytest.mark.slow) for dtype in ("uint8", "float64"))])
@pytest.mark.parametrize("border", ["zero", "clamp", "reflect"])
def test_preemphasis(dtype, border):
    data = [np.abs(np.random.default_rng(n).standard_normal(n) * 100).astype(dtype) for n in (50, 3, 2)]
    close("preemphasis_filter", data, border=border, preemph_coeff=0.9)


@pytest.mark.parametrize("dtype", ["float32", "int16", pytest.param("uint8", marks=pytest.mark.slow)])
def test_nonsilent_region(dtype):
    rng = np.random.default_rng(2)
    equal = total = 0
    for _ in range(5):
        data = []
        for length in rng.integers(10, 5000, 4):
            signal = rng.standard_normal(length) * 0.01
            begin, end = sorted(rng.integers(0, length, 2))
            signal[begin:end] += rng.standard_normal(end - begin) * 100
            data.append((np.abs(signal) if dtype == "uint8" else signal).astype(dtype))
        window = int(rng.integers(1, 400))
        for constants in (
            {"reset_interval": 7 * window}, {"reset_interval": -1, "cutoff_db": float(rng.uniform(-60, -1))},
            {"reset_interval": 3 * window, "reference_power": float(rng.uniform(1, 1e4))},
        ):  # fmt: skip
            theirs = dali_outputs("nonsilent_region", [data], [""], window_length=window, **constants)
            ours = harness.run_all("nonsilent_region", data, window_length=window, **constants)
            equal += int((np.array(theirs) == np.array(ours)).all(axis=0).sum())
            total += len(data)
    assert equal == total, (equal, total)


def loud_then_quiet(rng):
    """At least a second of noise, followed by a signal that is about 100 dB lower."""
    length = int(rng.integers(16000, 60000))
    signal, loud = rng.standard_normal(length), int(length * rng.uniform(0.1, 0.5))
    signal[:loud] *= 10 ** rng.uniform(-1, 1)
    signal[loud:] *= 10 ** rng.uniform(-5, -2)
    return signal.astype(np.float32)


@pytest.mark.parametrize("reset", [8192, 2048, -1])
def test_nonsilent_region_after_something_loud(reset):
    """DALI's running float32 sums keep the rounding errors of the loud part, and so do ours. `exact` equals a float64 computation."""
    rng, window = np.random.default_rng(1), 2048
    signals = [loud_then_quiet(rng) for _ in range(24)]
    constants = {"cutoff_db": -60.0, "window_length": window, "reset_interval": reset}
    theirs = dali_outputs("nonsilent_region", [signals], [""], **constants)
    ours = harness.run_all("nonsilent_region", signals, **constants)
    exact = harness.run_all("nonsilent_region", signals, **constants, exact=True)
    np.testing.assert_array_equal(np.array(ours), np.array(theirs))
    ends = np.zeros((2, len(signals)), int)
    for i, signal in enumerate(signals):
        power = np.convolve(signal.astype(np.float64) ** 2, np.ones(window), "valid")
        loud = np.flatnonzero(power >= power.max() * 1e-6)
        assert (int(exact[0][i]), int(exact[1][i])) == (loud[0], loud[-1] + window - loud[0])
        ends[:, i] = [int(begin[i]) + int(length[i]) for begin, length in (theirs, exact)]
    assert reset == 2048 or np.abs(ends[0] - ends[1]).max() > 1000


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint64", "int16", "uint16"])
@pytest.mark.parametrize("batches", [4, pytest.param(60, marks=pytest.mark.slow)])
def test_nonsilent_region_of_random_integer_signals(batches, dtype):
    """From quiet to the largest integers."""
    rng, limit = np.random.default_rng(len(dtype)), np.iinfo(dtype)
    for _ in range(batches):
        window, signals = int(rng.choice([1, 2, 10, 64, 100])), []
        for length in rng.integers(300, 3000, 16):
            loud = np.exp(-np.abs(np.arange(length) - rng.integers(length)) / rng.uniform(20, 200))
            noise = rng.uniform(-1 if limit.min else 0, 1, length) * loud * rng.choice([100, 5e4, 1e8, 0.9 * limit.max])
            signals.append(np.clip(noise, max(limit.min, -(2.0**62)), min(limit.max, 2.0**62)).astype(dtype))
        for reset in (-1, window * int(rng.integers(1, 20))):
            constants = {"window_length": window, "reset_interval": reset, "cutoff_db": float(rng.uniform(-130, -20))}
            theirs = dali_outputs("nonsilent_region", [signals], [""], **constants)
            ours = harness.run_all("nonsilent_region", signals, **constants)
            np.testing.assert_array_equal(np.array(ours), np.array(theirs), err_msg=str(constants))


@pytest.mark.parametrize("batches", [12, pytest.param(200, marks=pytest.mark.slow)])
def test_nonsilent_region_of_random_float_signals(batches):
    """Equal regions for all windows, intervals, cut-offs and references: also where sums are drifting beside the cut-off."""
    rng = np.random.default_rng(9)
    for turn in range(batches):
        window = int(rng.choice([1, 3, 100, 512, 1000, 2048]))
        reset = int(rng.choice([-1, window, 4 * window, max(8192 // window, 1) * window]))
        signals = []
        for length in rng.integers(window, rng.choice([window + 300, 40_000]), 16):
            signal = rng.standard_normal(length)
            loud = int(length * rng.uniform(0, 1))
            signal[:loud] *= 10 ** rng.uniform(-1, 2)
            signal[loud:] *= 10 ** rng.uniform(-5, -1)
            signals.append(np.ascontiguousarray(signal[:: 1 if rng.integers(2) else -1].astype(np.float32)))
        constants = {"window_length": window, "reset_interval": reset, "cutoff_db": float(rng.uniform(-90, -1))}
        if turn % 4 == 0:
            constants["reference_power"] = float(10 ** rng.uniform(-4, 2))
        theirs = dali_outputs("nonsilent_region", [signals], [""], **constants)
        ours = harness.run_all("nonsilent_region", signals, **constants)
        np.testing.assert_array_equal(np.array(ours), np.array(theirs), err_msg=str(constants))


@pytest.mark.parametrize(
    "name, shape, dtype, constants", [
        ("spectrogram", (100,), "float32", {"center_windows": False}), ("spectrogram", (100,), "float32", {"nfft": 100}),
        ("spectrogram", (10, 2), "float32", {}), ("spectrogram", (600,), "int16", {}), ("power_spectrum", (5, 5), "float32", {"axis": 2}),
        ("mel_filter_bank", (9, 9), "float32", {"freq_low": 900.0, "freq_high": 10.0}), ("mfcc", (9, 9), "float32", {"axis": 2}),
        ("mel_filter_bank", (9, 9), "float32", {"freq_high": 50000.0}), ("mfcc", (9, 9), "float32", {"n_mfcc": 0}),
        ("mfcc", (9, 9), "float32", {"dct_type": 1, "normalize": True}), ("mfcc", (9, 9), "float32", {"dct_type": 5}),
        ("to_decibels", (9,), "float32", {"reference": 0.0}), ("preemphasis_filter", (9,), "float32", {"border": "wrap"}),
        ("nonsilent_region", (9, 9), "float32", {}), ("nonsilent_region", (9,), "float32", {"reference_power": -1.0}),
    ],
)  # fmt: skip
def test_both_refuse(name, shape, dtype, constants):
    assert_both_refuse(name, [np.ones(shape, dtype)], **constants)
