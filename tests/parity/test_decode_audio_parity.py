"""decoders.audio beside DALI's: formats, element types, mixing and resampling."""

from __future__ import annotations

import io

import numpy as np
import pytest
from helpers.operators import run_operator
from helpers.parity import dali_outputs

from asyncdali import types

pytest.importorskip("nvidia.dali")
soundfile = pytest.importorskip("soundfile")


def encoded(kind, subtype, channels=2, rate=8000):
    samples = np.random.default_rng(channels).integers(-32768, 32768, (700, channels)).astype(np.int16)
    memory = io.BytesIO()
    soundfile.write(memory, samples, rate, format=kind, subtype=subtype)
    return np.frombuffer(memory.getvalue(), np.uint8)


def compare(sounds, tolerance=0.0, **constants):
    theirs, ours = dali_outputs("decoders.audio", [sounds], [""], **constants), run_operator("decoders.audio", sounds, **constants)
    for a, b in zip(theirs[0], ours, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        assert np.abs(a.astype(np.float64) - b).max(initial=0) <= tolerance
    return theirs[1]


@pytest.mark.parametrize("dtype", ["INT16", "INT32", "FLOAT"])
@pytest.mark.parametrize(
    "kind",
    [("WAV", "PCM_16"), ("WAV", "PCM_U8"), ("WAV", "PCM_24"), ("WAV", "PCM_32"), ("FLAC", "PCM_16"), ("AIFF", "PCM_16"), ("WAV", "ULAW")],
)
def test_stored_integers(kind, dtype):
    """Sounds that are stored as integers are equal to the last bit."""
    for channels in (1, 2):
        compare([encoded(*kind, channels)], dtype=getattr(types, dtype))


@pytest.mark.parametrize("dtype, tolerance", [("INT16", 1), ("INT32", 300), ("FLOAT", 1e-6)])
def test_mixed_and_resampled(dtype, tolerance):
    """DALI rounds the ratio of rates to float32, so its positions drift by about 1e-4 of a sample. Ours do not drift."""
    full = {"INT16": 32767, "INT32": 2.0**31, "FLOAT": 1.0}[dtype]
    stereo, mono = encoded("WAV", "PCM_16", 2), encoded("FLAC", "PCM_16", 1, 11025)
    dtype = getattr(types, dtype)
    compare([stereo, mono], tolerance, downmix=True, dtype=dtype)
    for rate, quality, drift in ((16000, 50, 5e-6), (4000, 0, 5e-6), (5000, 0, 5e-3), (22050, 100, 5e-3), (8000, 30, 5e-6)):
        wanted = {"sample_rate": float(rate), "quality": float(quality), "dtype": dtype}
        for downmix in (False, True):
            compare([stereo], tolerance + drift * full, downmix=downmix, **wanted)
        compare([stereo, mono], tolerance + 5e-3 * full, downmix=True, **wanted)


def test_vorbis():
    """Both libraries use libvorbis, but in different builds."""
    sound = np.sin(np.arange(3000) / 20)[:, None] * [0.5, 0.25]
    memory = io.BytesIO()
    soundfile.write(memory, sound, 8000, format="OGG", subtype="VORBIS")
    compare([np.frombuffer(memory.getvalue(), np.uint8)], 1e-5)
    compare([np.frombuffer(memory.getvalue(), np.uint8)], 1, dtype=types.INT16)


def test_sampling_rates():
    sounds = [encoded("WAV", "PCM_16", 1, rate) for rate in (8000, 44100)]
    assert [rate.tolist() for rate in compare(sounds)] == [8000.0, 44100.0]
    assert [rate.tolist() for rate in compare(sounds, 5e-3, sample_rate=16000.0)] == [16000.0, 16000.0]


def test_sound_recorded_as_floats():
    """DALI does not scale floats to the range of INT16 when the file stores floats."""
    memory = io.BytesIO()
    soundfile.write(memory, np.array([0.5, -0.25, 1.0, -1.0, np.nan], np.float32), 8000, format="WAV", subtype="FLOAT")
    sound = [np.frombuffer(memory.getvalue(), np.uint8)]
    np.testing.assert_array_equal(dali_outputs("decoders.audio", [sound], [""])[0][0], run_operator("decoders.audio", sound)[0])
    assert run_operator("decoders.audio", sound, dtype=types.INT16)[0].ravel().tolist() == [16384, -8192, 32767, -32767, 0]
    assert abs(dali_outputs("decoders.audio", [sound], [""], dtype=types.INT16)[0][0]).max() <= 1
