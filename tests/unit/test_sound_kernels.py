"""The compiled decoders of WAV and FLAC beside the decoders in Python."""

from __future__ import annotations

import io

import numpy as np
import pytest
from helpers.pipelines import pipeline_of

from asyncdali import fn, types
from asyncdali.operators.decode.audio_decoder import DecodeAudio

soundfile = pytest.importorskip("soundfile")
KINDS = {
    "WAV": ("PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE"),
    "FLAC": ("PCM_S8", "PCM_16", "PCM_24"),
}


def encoded(signal, format, subtype):
    file = io.BytesIO()
    soundfile.write(file, signal, 16000, format=format, subtype=subtype)
    return np.frombuffer(file.getvalue(), np.uint8)


def decoded(data, **options):
    """(sounds, rates)"""
    graph = lambda: tuple(fn.decoders.audio(fn.external_source(lambda: data), **options))  # noqa: E731
    with pipeline_of(graph, batch_size=len(data)) as pipeline:
        sounds, rates = pipeline.run()
        return [np.array(sample) for sample in sounds], [float(np.asarray(rate)) for rate in rates]


@pytest.fixture
def interpreted(monkeypatch):
    """Counts the batches that Python code decodes. ``interpreted.only()`` lets Python code decode all of them."""

    class Counter:
        batches = 0

        @staticmethod
        def only():
            monkeypatch.setattr(DecodeAudio, "_scanned", lambda *_: None)

    own = DecodeAudio._interpreted

    def counting(self, source, wanted):
        Counter.batches += 1
        return own(self, source, wanted)

    monkeypatch.setattr(DecodeAudio, "_interpreted", counting)
    return Counter


def signals():
    random, time = np.random.default_rng(3), np.arange(9000) / 16000
    for channels in (1, 2, 3, 8):
        for length in (1, 17, 4096, 9000):
            tone = np.sin(2 * np.pi * 300 * time[:length])[:, None] * np.linspace(0.1, 0.9, channels)
            yield tone + random.normal(0, 0.01, tone.shape)
            yield random.uniform(-1, 1, tone.shape)  # incompressible
            yield np.full_like(tone, 0.25)  # constant
            yield np.round(tone * 8) / 16  # wasted bits


@pytest.mark.parametrize("format, subtype", [(format, subtype) for format, subtypes in KINDS.items() for subtype in subtypes])
@pytest.mark.parametrize("dtype", ["INT16", "INT32", "FLOAT"])
def test_samples_are_the_interpreters(format, subtype, dtype, interpreted):
    data = [encoded(signal, format, subtype) for signal in signals()]
    options = {"dtype": getattr(types, dtype)}
    sounds, rates = decoded(data, **options)
    rounds = subtype in ("FLOAT", "DOUBLE") and dtype != "FLOAT"
    assert (interpreted.batches > 0) == rounds
    interpreted.only()
    wanted, wanted_rates = decoded(data, **options)
    assert rates == wanted_rates
    for made, known in zip(sounds, wanted, strict=True):
        assert made.dtype == known.dtype and made.shape == known.shape
        np.testing.assert_array_equal(made.view(np.uint8), known.view(np.uint8))


def test_one_channel_without_its_axis(interpreted):
    tone = np.sin(np.arange(3000) / 20)
    sounds, _ = decoded([encoded(tone, "WAV", "PCM_16"), encoded(tone, "FLAC", "PCM_16")], downmix=True)
    assert [sound.shape for sound in sounds] == [(3000,), (3000,)]
    np.testing.assert_allclose(*sounds, atol=2**-15)  # the two decoders round differently
    assert interpreted.batches == 0
    decoded([encoded(np.stack([tone, tone], 1), "WAV", "PCM_16")], downmix=True)
    assert interpreted.batches > 0


def outcome(data):
    try:
        return decoded([data])[0][0].tobytes()
    except RuntimeError as error:
        return str(error).splitlines()[0]


@pytest.mark.parametrize("format", ["FLAC", "WAV"])
def test_damaged_files_have_the_outcome_of_the_python_reader(format, interpreted):
    random = np.random.default_rng(5)
    whole = encoded(np.sin(np.arange(6000) / 30)[:, None] * [0.5, 0.4] + random.normal(0, 0.01, (6000, 2)), format, "PCM_16")
    files = []
    for k in range(40):
        damaged = whole.copy()
        at = random.integers(0, 60 if k % 2 else len(whole), 3)
        damaged[at] = random.integers(0, 256, 3)
        files.append(damaged[: len(whole) if k % 3 else random.integers(1, len(whole))])
    made = [outcome(file) for file in files]
    interpreted.only()
    assert made == [outcome(file) for file in files]
