"""decoders.audio: formats, element types, mixing, resampling and damaged files.

The expected samples do not come from asyncdali's decoders.
"""

from __future__ import annotations

import io
import struct
import sys
import wave

import numpy as np
import pytest
from helpers.operators import PerSample, run_operator
from helpers.pipelines import pipeline_of

from asyncdali import fn, types
from asyncdali.codecs.audio import audio_formats
from asyncdali.codecs.audio.audio_formats import decode_audio
from asyncdali.codecs.audio.resampling import resample, resampled_length, window
from asyncdali.errors import SampleError


def wav(samples, rate=8000):
    memory = io.BytesIO()
    with wave.open(memory, "wb") as file:
        file.setparams((samples.shape[1], samples.dtype.itemsize, rate, 0, "NONE", ""))
        file.writeframes(samples.tobytes())
    return memory.getvalue()


def noise(shape, seed=0):
    return np.random.default_rng(seed).integers(-(2**15), 2**15, shape).astype("<i2")


def test_stored_integers_are_kept():
    mono, stereo = noise((50, 1)), noise((70, 2), 1)
    for data, sounds in ((mono, [wav(mono)]), (stereo, [wav(stereo)])):
        (found,) = run_operator("decoders.audio", sounds, dtype=types.INT16)
        np.testing.assert_array_equal(found, data)
        (found,) = run_operator("decoders.audio", sounds, dtype=types.INT32)
        np.testing.assert_array_equal(found, data.astype(np.int32) << 16)
        (found,) = run_operator("decoders.audio", sounds)
        np.testing.assert_array_equal(found, data.astype(np.float32) / 32768)


def test_downmix_is_the_mean_and_one_dimension():
    stereo = np.array([[100, 200], [-100, -300], [32767, 32767], [-32768, -32768]], "<i2")
    (found,) = run_operator("decoders.audio", [wav(stereo)], downmix=True)
    np.testing.assert_allclose(found, stereo.mean(axis=1) / 32768, rtol=1e-6)
    (found,) = run_operator("decoders.audio", [wav(stereo)], downmix=True, dtype=types.INT16)
    np.testing.assert_array_equal(found, [150, -200, 32766, -32767])
    (found,) = run_operator("decoders.audio", [wav(stereo[:, :1].copy())], downmix=True, dtype=types.INT16)
    np.testing.assert_array_equal(found, stereo[:, 0])


def test_rates_and_origin_in_a_pipeline(tmp_path):
    """Samples of different rates and lengths. Each sample has its own target rate, and outputs keep the names of their files."""
    names = []
    for k, rate in enumerate((8000, 16000, 11025)):
        (tmp_path / f"{k}.wav").write_bytes(wav(noise((rate // 10, 1), k), rate))
        names.append(str(tmp_path / f"{k}.wav"))

    def graph():
        files, _ = fn.readers.file(files=names)
        wanted = fn.external_source(lambda info: np.float32([16000, 0, 22050][info.idx_in_batch]), batch=False)
        return *fn.decoders.audio(files, downmix=True), *fn.decoders.audio(files, sample_rate=wanted, quality=30.0)

    with pipeline_of(graph) as pipeline:
        plain, rates, resampled, new_rates = pipeline.run()
        assert [np.asarray(rate).tolist() for rate in rates] == [8000, 16000, 11025] and np.asarray(rates[0]).shape == ()
        assert [np.asarray(rate).tolist() for rate in new_rates] == [16000, 16000, 22050]
        assert [np.asarray(sound).shape for sound in plain] == [(800,), (1600,), (1102,)]
        assert [np.asarray(sound).shape for sound in resampled] == [(1600, 1), (1600, 1), (2204, 1)]
        assert [sound.source_info() for sound in plain] == names
        np.testing.assert_array_equal(np.asarray(resampled[0])[::2, 0], np.asarray(plain[0]))


def test_the_window_against_the_formula():
    """Resampling to a multiple of the rate keeps the input's samples. A windowed sinc gives the samples between them."""
    lobes, times = 16, 3
    data = noise((200, 1)).astype(np.float32)
    found = resample(data, 1, times, 50.0)
    assert found.shape == (600, 1) and len(window(lobes)) == 64 * lobes + 1
    place = np.arange(600)[:, None] / times - np.arange(200)
    weights = np.where(abs(place) <= lobes, np.sinc(place) * (0.5 + 0.5 * np.cos(np.pi * place / lobes)), 0)
    np.testing.assert_allclose(found, weights @ data, atol=2e-3 * 2**15)
    np.testing.assert_allclose(found[::times], data, atol=0.02)


def test_lengths():
    assert [resampled_length(8000, 8000, rate) for rate in (11025, 8000, 5000.5, 1)] == [11025, 8000, 5001, 1]
    assert resampled_length(0, 8000, 16000) == 0
    with pytest.raises(ValueError, match="check the sampling rates"):
        resampled_length(4000, 1, 16000)


def test_soundfile_formats():
    soundfile = pytest.importorskip("soundfile")
    data = (np.sin(np.arange(4000) / 20)[:, None] * [0.5, 0.25]).astype(np.float32)
    whole = np.round(data * 32767).astype(np.int16)

    def encoded(samples, kind, subtype):
        memory = io.BytesIO()
        soundfile.write(memory, samples, 16000, format=kind, subtype=subtype)
        return memory.getvalue()

    for kind, subtype in (("FLAC", "PCM_16"), ("AIFF", "PCM_16"), ("AU", "PCM_16"), ("FLAC", "PCM_24")):
        (found,) = run_operator("decoders.audio", [encoded(whole, kind, subtype)], dtype=types.INT16)
        np.testing.assert_array_equal(found, whole)
    for kind, subtype, tolerance in (("OGG", "VORBIS", 0.05), ("WAV", "ULAW", 0.02), ("AU", "FLOAT", 1e-6), ("OGG", "OPUS", 0.05)):
        sound = encoded(data, kind, subtype)
        (found,) = run_operator("decoders.audio", [sound])
        assert found.shape == data.shape
        np.testing.assert_allclose(found, data, atol=tolerance)
        (found,) = run_operator("decoders.audio", [sound], dtype=types.INT16)
        np.testing.assert_allclose(found / 32767, data, atol=tolerance + 2e-4)


def test_damage_names_sample_and_file(tmp_path):
    good = wav(noise((400, 1)))
    (tmp_path / "good.wav").write_bytes(good)
    (tmp_path / "bad.wav").write_bytes(good[:30])

    def graph():
        files, _ = fn.readers.file(files=[str(tmp_path / "good.wav"), str(tmp_path / "bad.wav")])
        return fn.decoders.audio(files)[0]

    with (
        pipeline_of(graph, batch_size=2) as pipeline,
        pytest.raises(RuntimeError, match=r"(?s)sample 1 \(.*bad\.wav\).*format chunk is truncated"),
    ):
        pipeline.run()


@pytest.mark.parametrize(
    "data, message",
    [
        (b"x", "Format not recognised"), (b"RIFF1234WAVE", "there is no data chunk"), (wav(noise((9, 1)))[:36], "there is no data chunk"),
        (b"", "encoded|recognised"),
    ],
)  # fmt: skip
def test_broken_data(data, message):
    pytest.importorskip("soundfile")
    with pytest.raises(SampleError, match=message):
        run_operator("decoders.audio", [data])


def test_a_damaged_file_that_seeks_before_its_begin():
    """libsndfile seeks to a negative position. An exception in the callback would only be printed, so the callback must not raise."""
    soundfile = pytest.importorskip("soundfile")
    memory = io.BytesIO()
    soundfile.write(memory, np.zeros((300, 2)), 8000, format="AIFF", subtype="PCM_16")
    for value in (0, 128, 255):
        data = bytearray(memory.getvalue())
        data[38] = value
        with pytest.raises(SampleError):
            run_operator("decoders.audio", [bytes(data)])


def test_truncated_flac():
    soundfile = pytest.importorskip("soundfile")
    memory = io.BytesIO()
    soundfile.write(memory, noise((9000, 1)), 8000, format="FLAC")
    with pytest.raises(SampleError, match="of 9000 samples|Error decoding"):
        run_operator("decoders.audio", [memory.getvalue()[: len(memory.getvalue()) // 2]])


def test_without_soundfile(monkeypatch):
    monkeypatch.setitem(sys.modules, "soundfile", None)
    data = noise((40, 1))
    np.testing.assert_array_equal(run_operator("decoders.audio", [wav(data)], dtype=types.INT16)[0], data)
    cases = ((b"fLaC.....", "a FLAC file that is damaged"), (b"OggS....", "an Ogg file"), (b"ID3\3...", "begins with b'ID3.x03'"))
    for damaged, what in cases:
        with pytest.raises(SampleError, match=rf"{what}.*FLAC.*Vorbis can.*install `soundfile`.*pip install asyncdali\[audio\]"):
            run_operator("decoders.audio", [damaged])


@pytest.mark.parametrize("options", [{"downmix": True}, {"sample_rate": 8000.0}, {"sample_rate": 8000.0, "dtype": types.INT16}], ids=str)
@pytest.mark.parametrize("format, subtype", [("FLAC", "PCM_16"), ("OGG", "VORBIS")])
def test_flac_and_vorbis_are_mixed_and_resampled_without_soundfile(format, subtype, options, monkeypatch):
    """The expected samples are those of WAV files with the samples that libsndfile finds."""
    soundfile = pytest.importorskip("soundfile")
    memory, same = io.BytesIO(), io.BytesIO()
    tones = np.sin(np.arange(8000) / 20)[:, None] * [0.5, 0.25] + noise((8000, 2)) / 2**20
    soundfile.write(memory, tones, 16000, format=format, subtype=subtype)
    samples, _ = soundfile.read(io.BytesIO(memory.getvalue()), dtype="float32")
    soundfile.write(same, samples, 16000, format="WAV", subtype="FLOAT")
    monkeypatch.setitem(sys.modules, "soundfile", None)
    (wanted,), (found,) = (run_operator("decoders.audio", [file.getvalue()], **options) for file in (same, memory))
    assert found.shape == wanted.shape and len(found) > 3000
    apart = 0 if format == "FLAC" else 1 if "dtype" in options else 2e-6
    np.testing.assert_allclose(found, wanted, atol=apart, rtol=0)


def test_wrong_arguments():
    for constants, error in (
        ({"dtype": types.UINT8}, "Unsupported output type"),
        ({"quality": 101.0}, "quality"),
        ({"sample_rate": 1e9}, "rate"),
    ):
        with pytest.raises((RuntimeError, ValueError), match=error):
            run_operator("decoders.audio", [wav(noise((9, 1)))], **constants)
    for data in (np.zeros((2, 3), np.uint8), np.zeros(9, np.int8)):
        with pytest.raises(ValueError, match=r"has 2 dimensions; supported are: 1|INT8 .*encoded sound.*supported types are: UINT8"):
            run_operator("decoders.audio", [data])
    with pytest.raises(SampleError, match="sample_rate"):
        run_operator("decoders.audio", [wav(noise((9, 1)))], sample_rate=PerSample([np.float32(np.nan)]))


def test_the_old_name():
    sounds = [np.frombuffer(wav(noise((9, 1))), np.uint8)] * 3
    with pytest.warns(DeprecationWarning, match="audio_decoder"):
        pipeline = pipeline_of(lambda: fn.audio_decoder(fn.external_source(lambda: sounds))[1])
    with pipeline:
        assert [float(np.asarray(rate)) for rate in pipeline.run()[0]] == [8000.0] * 3


CODINGS = [
    ("AIFF", "GSM610"), ("AIFF", "DWVW_16"), ("AIFF", "DWVW_24"), ("AIFF", "IMA_ADPCM"), ("AU", "G721_32"), ("AU", "G723_24"),
    ("AU", "G723_40"), ("W64", "GSM610"), ("W64", "MS_ADPCM"), ("WAV", "GSM610"), ("WAV", "G721_32"), ("WAV", "NMS_ADPCM_16"),
    ("WAV", "NMS_ADPCM_24"), ("WAV", "NMS_ADPCM_32"), ("WAV", "IMA_ADPCM"), ("XI", "DPCM_8"), ("XI", "DPCM_16"), ("CAF", "ALAC_16"),
    ("RF64", "PCM_16"), ("AU", "ALAW"),
]  # fmt: skip


@pytest.mark.parametrize("kind, subtype", CODINGS)
def test_codings_that_libsndfile_cannot_seek_in(kind, subtype, monkeypatch):
    """Parts are cut out of what comes before; nothing seeks to the begin."""
    soundfile = pytest.importorskip("soundfile")
    memory = io.BytesIO()
    soundfile.write(memory, np.sin(np.arange(16000) / 9) * 0.5, 8000, format=kind, subtype=subtype)
    with soundfile.SoundFile(io.BytesIO(memory.getvalue())) as file:
        monkeypatch.setattr(file, "seekable", lambda: False)  # `soundfile` seeks after each read otherwise
        rate, wanted = file.samplerate, file.read(file.frames, "float32", always_2d=True)
    assert len(wanted) >= 15000 and wanted.max() > 0.4
    found, found_rate = decode_audio(io.BytesIO(memory.getvalue()), np.dtype(np.float32))
    np.testing.assert_array_equal(found, wanted)
    assert found_rate == rate
    monkeypatch.setattr(audio_formats, "_PIECE", 700)
    for first, count in ((0, 1), (1, 500), (5000, 2000), (len(wanted) - 10, 10), (0, len(wanted))):
        part, _ = decode_audio(
            io.BytesIO(memory.getvalue()), np.dtype(np.float32), offset=(first + 0.5) / rate, duration=(count + 0.5) / rate
        )
        np.testing.assert_array_equal(part, wanted[first : first + count])


def riff(data, kind=1, channels=1, rate=8000, bits=16, more=b"", riff=None, size=None):
    head = struct.pack("<HHIIHH", kind, channels, rate, 0, channels * bits // 8 & 0xFFFF, bits) + more
    body = b"WAVEfmt " + struct.pack("<I", len(head)) + head + b"data" + struct.pack("<I", len(data) if size is None else size) + data
    return b"RIFF" + struct.pack("<I", len(body) if riff is None else riff) + body


GUID = bytes.fromhex("000000001000800000aa00389b71")
SOUND = noise((3000, 1)).tobytes()
HEADERS = {
    **{f"{channels} channels": riff(SOUND, channels=channels) for channels in (0, 1, 3, 1024, 1025, 65535)},
    **{f"rate {rate}": riff(SOUND, rate=rate) for rate in (0, 1, 2**31 - 1, 2**31, 2**32 - 1)},
    **{f"{bits} bits": riff(SOUND, bits=bits) for bits in (0, 1, 8, 12, 16, 20, 24, 32, 33, 64)},
    **{f"{bits} bits of floats": riff(SOUND, kind=3, bits=bits) for bits in (16, 24, 32, 64, 80)},
    **{f"sizes {whole} and {size}": riff(SOUND, riff=whole, size=size) for whole in (0, 8, 36, 2**32 - 1) for size in (0, 7, 2**32 - 1)},
    "sizes 8 and 0 without samples": riff(b"", riff=8, size=0), "sizes 8 and 0 with a byte": riff(b"a", riff=8, size=0),
    "extensible": riff(SOUND, kind=0xFFFE, more=struct.pack("<HHIH", 22, 16, 4, 1) + GUID),
    "extensible of another company": riff(SOUND, kind=0xFFFE, more=struct.pack("<HHIH", 22, 16, 4, 1) + bytes(14)),
    "extensible, short": riff(SOUND, kind=0xFFFE, more=struct.pack("<HHI", 22, 16, 4)),
    "extensible floats": riff(SOUND, kind=0xFFFE, bits=32, more=struct.pack("<HHIH", 22, 32, 4, 3) + GUID),
    "A-law": riff(SOUND, kind=6, bits=8), "mu-law": riff(SOUND, kind=7, bits=8),
}  # fmt: skip


@pytest.mark.parametrize("data", HEADERS.values(), ids=HEADERS.keys())
@pytest.mark.parametrize("downmix", [False, True], ids=["", "mixed"])
def test_wav_headers_are_accepted_as_by_libsndfile(data, downmix):
    """Compiled code reads most WAV files, the interpreter mixes channels, libsndfile reads other codings. All follow libsndfile's rules."""
    soundfile = pytest.importorskip("soundfile")
    try:
        wanted = soundfile.read(io.BytesIO(data), dtype="float32", always_2d=True)[0]
    except soundfile.LibsndfileError:
        with pytest.raises(SampleError):
            run_operator("decoders.audio", [data], downmix=downmix)
        return
    (found,) = run_operator("decoders.audio", [data], downmix=downmix)
    if downmix:
        with np.errstate(invalid="ignore"):  # Noise read as floats has infinite numbers of both signs.
            np.testing.assert_allclose(found, wanted.mean(axis=1), atol=1e-6)
    else:
        np.testing.assert_array_equal(found, wanted)


def test_flac_of_unknown_length():
    """A writer to a pipe cannot go back to store the number of samples."""
    soundfile = pytest.importorskip("soundfile")
    memory, data = io.BytesIO(), noise((9000, 2))
    soundfile.write(memory, data, 8000, format="FLAC")
    unknown = bytearray(memory.getvalue())
    unknown[21] &= 0xF0
    unknown[22:26] = bytes(4)
    np.testing.assert_array_equal(run_operator("decoders.audio", [bytes(unknown)], dtype=types.INT16)[0], data)
    part, _ = decode_audio(io.BytesIO(bytes(unknown)), np.dtype(np.int16), offset=0.5)
    np.testing.assert_array_equal(part, data[4000:])
    with pytest.raises(ValueError, match="lies beyond the end of 9000 samples"):
        decode_audio(io.BytesIO(bytes(unknown)), np.dtype(np.int16), offset=5)


def test_truncated_sound_is_refused_however_it_is_read():
    """Resampled sound was accepted although samples were missing."""
    soundfile = pytest.importorskip("soundfile")
    memory = io.BytesIO()
    soundfile.write(memory, noise((9000, 1)), 8000, format="AIFF", subtype="ALAW")
    cut = memory.getvalue()[:4000]
    outcomes = set()
    for options in ({}, {"downmix": True}, {"rate": 4000.0}):
        try:
            outcomes.add(len(decode_audio(io.BytesIO(cut), np.dtype(np.float32), **options)[0]) * (2 if "rate" in options else 1))
        except ValueError as error:
            outcomes.add(str(error))
    assert len(outcomes) == 1, outcomes
