"""nonsilent_region: begin and length of the region."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import operators as harness
from helpers.marks import slow


def test_nonsilent_region():
    data = np.zeros(1000, np.int16)
    data[300:500] = 1000
    begin, length = harness.run_all("nonsilent_region", [data], window_length=1, reset_interval=-1, cutoff_db=-20.0)
    assert (int(begin[0]), int(length[0])) == (300, 200)
    begin, length = harness.run_all("nonsilent_region", [data], window_length=10, reset_interval=-1, cutoff_db=-20.0)
    assert (int(begin[0]), int(length[0])) == (300 - 9, 200 + 18)
    begin, length = harness.run_all("nonsilent_region", [data], window_length=10, reset_interval=-1, reference_power=1e14)
    assert int(length[0]) == 0


@pytest.mark.parametrize("window, reset", [(100, 400), (64, 64), (1, 1), (500, -1), (100, 3000), (100, 100 << 40)])
def test_default_sums_are_float32_and_restart_behind_multiples_of_the_interval(window, reset):
    """The formula, window by window: the sample that leaves is subtracted first."""
    rng = np.random.default_rng(3)
    for length in (window, window + 1, 399, 400, 401, 3000):
        signal = (rng.standard_normal(max(length, window)) * np.geomspace(30, 1e-4, max(length, window))).astype(np.float32)
        squares, means, total = signal * signal, [], np.float32(0)
        for first in range(len(signal) - window + 1):
            last = first + window - 1
            if first == 0 or (reset > 0 and last % reset == 0):
                total = np.float32(0)
                for square in squares[first : last + 1]:
                    total = np.float32(total + square)
            else:
                total = np.float32(np.float32(total - squares[first - 1]) + squares[last])
            means.append(np.float32(total * (np.float32(1) / np.float32(window))))
        for cutoff in (-70.0, -45.0, -10.0):
            factor = np.float32(10.0 ** float(np.float32(cutoff) * np.float32(0.1)))
            loud = np.flatnonzero(np.array(means) >= np.float32(max(means) * factor))
            constants = {"window_length": window, "reset_interval": reset, "cutoff_db": cutoff}
            begin, found = harness.run_all("nonsilent_region", [signal], **constants)
            assert (int(begin[0]), int(found[0])) == (loud[0], loud[-1] + window - loud[0]), (length, cutoff)


def test_exact_sums():
    """Noise that is 130 dB louder leaves rounding errors above a quiet tone in float32 sums, none above it in float64 sums."""
    rng = np.random.default_rng(4)
    signals = [
        np.concatenate([rng.standard_normal(5000) * 1000, rng.standard_normal(20_000) * 1e-4]).astype(np.float32) for _ in range(8)
    ]
    constants = {"reset_interval": -1, "cutoff_db": -80.0}
    for dtype in (np.float32, np.float64):
        begin, length = harness.run_all("nonsilent_region", [signal.astype(dtype) for signal in signals], **constants, exact=True)
        assert {(int(first), int(count)) for first, count in zip(begin, length, strict=True)} == {(0, 5000 + 2047)}
    _, length = harness.run_all("nonsilent_region", signals, **constants)
    assert max(map(int, length)) == 25_000


@pytest.mark.parametrize("dtype", [np.int32, np.uint64, *slow(np.uint32, np.int64)])
def test_sums_of_wide_integers(dtype):
    """By default they are float32 and never restart; after something loud, the square of a quiet sample is lost in them."""
    signal = np.zeros(3000, dtype)
    signal[1000:1100] = 2_000_000_000
    signal[1104], signal[2000] = 100_000, 2_000_000
    constants = {"window_length": 10, "reset_interval": 10, "cutoff_db": -75.0}
    begin, length = harness.run_all("nonsilent_region", [signal], **constants, exact=True)
    assert (int(begin[0]), int(length[0])) == (991, 1019)
    wide, total, means = signal.astype(np.float32), np.float32(0), []
    squares = wide * wide
    for last in range(len(signal)):
        total = np.float32(total - squares[last - 10] if last >= 10 else total)
        total = np.float32(total + squares[last])
        means += [np.float32(total * (np.float32(1) / np.float32(10)))] * (last >= 9)
    for cutoff in (-75.0, -110.0, -140.0):
        factor = np.float32(10.0 ** float(np.float32(cutoff) * np.float32(0.1)))
        loud = np.flatnonzero(np.array(means) >= np.float32(max(means) * factor))
        begin, length = harness.run_all("nonsilent_region", [signal], **{**constants, "cutoff_db": cutoff})
        assert (int(begin[0]), int(length[0])) == (loud[0], loud[-1] + 10 - loud[0]), cutoff


@pytest.mark.parametrize("constants", [{"window_length": 0}, {"window_length": 10, "reset_interval": 15}, {"reference_power": -1.0}])
def test_nonsilent_region_refuses(constants):
    with pytest.raises(ValueError, match=r"window_length|reset_interval|reference_power"):
        harness.run("nonsilent_region", [np.zeros(9, np.float32)], **constants)
