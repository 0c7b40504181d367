"""audio_resample beside DALI's: filters of all qualities, lengths, element types and refusals."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import operators as harness
from helpers.parity import assert_both_refuse, dali_output

from asyncdali import types

pytest.importorskip("nvidia.dali")
NAMES = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "float32"]


def compare(samples, tolerance, per_sample=None, **constants):
    theirs = dali_output("audio_resample", samples, "", per_sample, **constants)
    ours = harness.run("audio_resample", samples, "", per_sample, **constants)
    for a, b in zip(theirs, ours, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        assert np.abs(a.astype(np.float64) - b).max(initial=0) <= tolerance


def sounds(dtype="float32", channels=None):
    rng, shapes = np.random.default_rng(3), [(n,) if channels is None else (n, channels) for n in (500, 60, 3)]
    if dtype == "float32":
        return [rng.uniform(-1, 1, shape).astype(dtype) for shape in shapes]
    info = np.iinfo(dtype)
    return [rng.integers(info.min, info.max, shape, dtype, endpoint=True) for shape in shapes]


def type_of(name):
    return types.FLOAT if name == "float32" else getattr(types, name.upper())


def full(name):
    return 1.0 if name == "float32" else float(np.iinfo(name).max)


@pytest.mark.parametrize("quality", [0.0, 10.0, 50.0, 73.0, 100.0])
@pytest.mark.parametrize("channels", [None, 1, 2, 3])
def test_qualities(quality, channels):
    """float32 represents these ratios exactly, so DALI's positions do not drift from ours."""
    for rates in ((1.0, 2.0), (3.0, 2.0), (8000.0, 8000.0), (1.0, 16.0)):
        compare(sounds(channels=channels), 3e-6, in_rate=rates[0], out_rate=rates[1], quality=quality)


@pytest.mark.parametrize("rates", [(44100.0, 16000.0), (8000.0, 11025.0), (16000.0, 16000.5), (1.0, 0.1), (48000.0, 44100.0)])
def test_positions_drift_in_dali(rates):
    compare(sounds(), 5e-3, in_rate=rates[0], out_rate=rates[1])


def test_lengths():
    data = sounds()
    for scale in np.random.default_rng(4).uniform(0, 3, 20).astype(np.float32):
        compare(data, 1e-2, scale=float(scale))
    compare(data, 1e-2, {"scale": np.float32([0.4, 0, 7.7])})
    compare(data, 1e-2, {"out_length": np.int64([10, 0, 77])})
    compare(data, 1e-2, {"in_rate": np.float32([3, 1, 22050])}, out_rate=8000.0, quality=0.0)


PAIRS = [(source, target) for source in NAMES for target in NAMES]
USUAL = [("int16", "float32"), ("int16", "int16"), ("float32", "int16"), ("uint8", "float32"), ("uint8", "uint8"), ("int8", "uint16")]


@pytest.mark.parametrize("source, target", [*USUAL, *[pytest.param(*pair, marks=pytest.mark.slow) for pair in PAIRS if pair not in USUAL]])
def test_types(source, target):
    compare(sounds(source, 2), 1 + 2e-6 * full(target) if target != "float32" else 3e-6, scale=2.0, dtype=type_of(target), quality=20.0)


def test_refused():
    data = sounds()
    wrong = [
        {}, {"scale": -1.0}, {"in_rate": 0.0, "out_rate": 1.0}, {"in_rate": 1.0}, {"scale": 1.0, "out_length": 3}, {"out_length": -1},
        {"scale": 1.0, "quality": 101.0}, {"scale": 1.0, "dtype": types.FLOAT64},
    ]  # fmt: skip
    for constants in wrong:
        assert_both_refuse("audio_resample", data, **constants)
    assert_both_refuse("audio_resample", [sample.astype(np.float64) for sample in data], scale=1.0)
    assert_both_refuse("audio_resample", [np.zeros((2, 3, 4), np.float32)], scale=1.0)
    assert_both_refuse("audio_resample", [np.zeros(0, np.float32)], out_length=1)
