"""The compiled decoders of WAV and FLAC beside the decoders in Python."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from helpers.pipelines import pipeline_of
from helpers.warm import run_warm

from asyncdali import fn, types
from asyncdali.codecs.audio import audio_formats
from asyncdali.codecs.audio.audio_decoder_tables import SOUND
from asyncdali.codecs.audio.compiled_sounds import NotDecoded, Scan
from asyncdali.operators.decode import audio_decoder
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
    """Counts the batches that compiled code leaves. ``interpreted.only()`` lets Python code (WAV) and libsndfile (FLAC) decode all."""

    def refused(data, what):
        raise NotDecoded(what)

    class Counter:
        batches = 0

        @staticmethod
        def only():
            monkeypatch.setattr(audio_decoder, "scanned", lambda source, *arguments: Scan(SOUND.zeros(len(source)), 0, 0, 0, 0, []))
            monkeypatch.setattr(audio_formats, "WholeSound", refused)

    own = DecodeAudio._interpreted

    def counting(self, source, wanted, samples):
        Counter.batches += 1
        return own(self, source, wanted, samples)

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


@pytest.mark.parametrize("order", range(1, 33))
def test_predictions_of_every_order(order, interpreted):
    """FFmpeg's encoder takes any order of prediction, libFLAC's no more than 12."""
    av = pytest.importorskip("av")
    random, time = np.random.default_rng(order), np.arange(5000) / 16000
    tones = sum(np.sin(2 * np.pi * 211 * k * time + k) for k in range(1, 17)) / 40
    signal = np.int16((tones + random.normal(0, 0.002, len(time))) * 32767)
    file = io.BytesIO()
    with av.open(file, "w", format="flac") as container:
        options = {"compression_level": "8", "lpc_type": "levinson", "min_prediction_order": str(order), "max_prediction_order": str(order)}
        stream = container.add_stream("flac", rate=16000, layout="mono", format="s16", options=options)
        stream.codec_context.open()
        for begin in range(0, len(signal), stream.codec_context.frame_size):
            frame = av.AudioFrame.from_ndarray(signal[None, begin : begin + stream.codec_context.frame_size], "s16", "mono")
            frame.sample_rate, frame.pts = 16000, begin
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    ((found,), _) = decoded([np.frombuffer(file.getvalue(), np.uint8)], dtype=types.INT16)
    np.testing.assert_array_equal(found[:, 0], signal)
    assert interpreted.batches == 0


def test_codes_of_any_length(interpreted):
    """A spike in silence has a code of thousands of bits; loud noise has many low bits."""
    random = np.random.default_rng(1)
    for subtype, bits in (("PCM_16", 16), ("PCM_24", 24)):
        spikes, noise = np.zeros(20000, np.int32), random.integers(-(2**31), 2**31 - 1, 20000).astype(np.int32)
        spikes[::997] = 2**31 - 1
        quiet = random.integers(-3, 4, 20000).astype(np.int32) << (32 - bits)
        for signal in (spikes, noise, quiet, np.where(np.arange(20000) % 5000 < 2500, quiet, noise)):
            signal = signal >> (32 - bits) << (32 - bits)
            ((found,), _) = decoded([encoded(signal, "FLAC", subtype)], dtype=types.INT32)
            np.testing.assert_array_equal(found[:, 0], signal)
    assert interpreted.batches == 0


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


READY = """
import io, json, sys
import numpy as np, soundfile
from helpers.pipelines import pipeline_of
from asyncdali import fn
from asyncdali.codecs.audio import audio_decoder_kernels as kernels

def encoded(format, subtype):
    file = io.BytesIO()
    soundfile.write(file, np.linspace(-0.5, 0.5, 400), 16000, format=format, subtype=subtype)
    return np.frombuffer(file.getvalue(), np.uint8)

files = {"WAV": encoded("WAV", "PCM_16"), "FLAC": encoded("FLAC", "PCM_16"), "OGG": encoded("OGG", "VORBIS")}
order = iter(("WAV", "FLAC", "WAV", "OGG"))
names = ("scan_sounds", "wav_step", "scan_compressed", "flac_step", "vorbis_headers", "vorbis_step")
with pipeline_of(lambda: tuple(fn.decoders.audio(fn.external_source(lambda: [files[next(order)]]))), batch_size=1, prefetch_queue_depth=1,
                 exec_pipelined=False, exec_async=False) as pipeline:
    pipeline.build()
    found = []
    for _ in range(5):
        found.append([name for name in names if getattr(kernels, name).ready])
        if len(found) < 5:
            pipeline.run()
print(json.dumps(found))
"""


def test_kernels_of_a_format_are_compiled_when_the_format_comes():
    """Compiling all formats for WAV files took 11 s of a processor before the first batch."""
    done = run_warm(READY)
    assert done.returncode == 0, done.stderr
    built, wav, flac, again, vorbis = json.loads(done.stdout.splitlines()[-1])
    assert built == wav == ["scan_sounds", "wav_step"]
    assert flac == again == [*built, "scan_compressed", "flac_step"]
    assert vorbis == [*flac, "vorbis_headers", "vorbis_step"]
