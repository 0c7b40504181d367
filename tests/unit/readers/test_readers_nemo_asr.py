"""readers.nemo_asr: manifests, variants of WAV, resampling, and damaged files."""

from __future__ import annotations

import json
import random
import struct
import sys
import warnings
import wave

import numpy as np
import pytest
from helpers.pipelines import values
from helpers.sound_damage import damaged, files

from asyncdali import Pipeline, fn, types
from asyncdali.batch import Batch, storage_dtype
from asyncdali.codecs.audio import audio_formats
from asyncdali.codecs.audio.audio_formats import decode_audio
from asyncdali.codecs.audio.compiled_sounds import NotDecoded
from asyncdali.codecs.audio.resampling import resample
from asyncdali.readers.files.nemo_asr import read_manifest


def reader(manifests, batch=1, **arguments):
    pipe = Pipeline(batch_size=batch, num_threads=2, seed=1)
    with pipe:
        made = fn.readers.nemo_asr(manifest_filepaths=manifests, name="R", **arguments)
        pipe.set_outputs(*(made if isinstance(made, list) else [made]))
    pipe.build()
    return pipe


def manifest(path, *entries):
    path.write_text("\n".join(entry if isinstance(entry, str) else json.dumps(entry) for entry in entries))
    return str(path)


def written(path, samples, rate=8000):
    with wave.open(str(path), "wb") as file:
        file.setparams((samples.shape[1], samples.dtype.itemsize, rate, 0, "NONE", ""))
        file.writeframes(samples.tobytes())
    return str(path)


def test_entries_of_two_manifests(tmp_path):
    tone = written(tmp_path / "a.wav", np.arange(8000, dtype="<i2").reshape(-1, 1))
    stereo = written(tmp_path / "b.wav", np.array([[100, 200], [-100, -300]], "<i2"), 16000)
    one = manifest(tmp_path / "one", {"audio_filepath": tone, "duration": 0.25, "offset": 0.5, "text": "grün"}, {"audio_filepath": stereo})
    two = manifest(tmp_path / "two", "rubbish", {"audio_filepath": tone, "duration": 99, "text": ""}, {"text": "no path"}, "[" * 9999)
    with pytest.warns(UserWarning, match=r"line \d is not a manifest entry") as seen:
        pipe = reader([one, two], 3, read_idxs=True)
    assert [str(item.message).split()[2] for item in seen] == ["1", "3", "4"] and pipe.epoch_size("R") == 3
    sound, rate, text, index = pipe.run()
    np.testing.assert_array_equal(np.asarray(sound[0]), np.arange(4000, 6000, dtype=np.float32) / 32768)
    assert values([rate, index]) == [[8000.0, 16000.0, 8000.0], [[0], [1], [0]]] and np.asarray(rate[0]).shape == ()
    assert [bytes(np.asarray(item)).decode() for item in text] == ["grün", "", ""] and sound[0].source_info() == tone
    np.testing.assert_allclose(np.asarray(sound[1]), np.float32([150, -200]) / 32768)
    sound, *_ = reader([one], 2, downmix=False, dtype=types.INT16).run()
    assert np.asarray(sound[0]).shape == (2000, 1) and values([sound])[0][1] == [[100, 200], [-100, -300]]
    assert [len(reader([one], read_text=False, **more).run()) for more in ({}, {"read_sample_rate": False})] == [2, 1]


_GUID = bytes.fromhex("000000001000800000aa00389b71")


def test_wav_dialects(tmp_path):
    numbers = np.array([-1.0, -0.5, 0.0, 0.25, 0.5])
    kinds = [
        (1, 8, (numbers * 128 + 128).astype("u1").tobytes()), (1, 16, (numbers * 2**15).astype("<i2").tobytes()),
        (1, 24, b"".join(int(n * 2**23).to_bytes(3, "little", signed=True) for n in numbers)),
        (1, 32, (numbers * 2**31).astype("<i4").tobytes()), (3, 32, numbers.astype("<f4").tobytes()),
        (3, 64, numbers.astype("<f8").tobytes()), (0xFFFE, 16, (numbers * 2**15).astype("<i2").tobytes()),
    ]  # fmt: skip
    for kind, bits, data in kinds:
        more = struct.pack("<HHIH", 22, bits, 0, 1) + _GUID if kind == 0xFFFE else b""
        head = struct.pack("<HHIIHH", kind, 1, 8000, 0, 0, bits) + more
        body = b"WAVELIST\x03\0\0\0abc\0fmt " + struct.pack("<I", len(head)) + head + b"data" + struct.pack("<I", len(data)) + data
        (tmp_path / "a.wav").write_bytes(b"RIFF" + struct.pack("<I", len(body)) + body)
        with open(tmp_path / "a.wav", "rb") as file:
            samples, rate = decode_audio(file, np.dtype(np.float32))
        np.testing.assert_array_equal(samples[:, 0], numbers, err_msg=f"{kind} {bits}")
        assert rate == 8000


PARTS = [{}, {"offset": 0.1, "duration": 0.05}, {"offset": 0.02, "duration": 0.2}, {"offset": 0.2}, {"duration": 0.01}, {"duration": 9.0}]
"""Whole files, parts of more and of less than a third, which are decoded in two ways if `soundfile` is installed."""


@pytest.mark.parametrize("alone", [False, True], ids=["with soundfile", "without soundfile"])
@pytest.mark.parametrize("dtype", [types.INT16, types.INT32, types.FLOAT], ids=str)
def test_flac(tmp_path, dtype, alone, monkeypatch):
    soundfile = pytest.importorskip("soundfile")
    numbers = np.random.default_rng(1).integers(-(2**15), 2**15, (4000, 2)).astype(np.int16)
    soundfile.write(tmp_path / "a.flac", numbers, 16000)
    if alone:
        monkeypatch.setitem(sys.modules, "soundfile", None)
    path = manifest(tmp_path / "m", *({"audio_filepath": str(tmp_path / "a.flac"), **part} for part in PARTS))
    sounds, rates, _ = reader([path], len(PARTS), downmix=False, dtype=dtype).run()
    wanted = {types.INT16: numbers, types.INT32: numbers.astype(np.int32) << 16, types.FLOAT: np.float32(numbers) / 2**15}[dtype]
    parts = (slice(None), slice(1600, 2400), slice(320, 3520), slice(3200, None), slice(0, 160), slice(None))
    for k, part in enumerate(parts):
        np.testing.assert_array_equal(np.asarray(sounds[k]), wanted[part])
    assert values([rates]) == [[16000.0] * len(PARTS)]


@pytest.mark.parametrize("options", [{"downmix": False}, {}, {"sample_rate": 8000.0}, {"dtype": types.INT16}], ids=str)
@pytest.mark.parametrize("format, subtype, apart", [("FLAC", "PCM_16", 0), ("FLAC", "PCM_24", 0), ("OGG", "VORBIS", 2e-6)])
def test_every_use_without_soundfile(tmp_path, format, subtype, apart, options, monkeypatch):
    """Mixed and resampled sound, too. The samples are those of libsndfile, which decodes all files if the compiled decoders refuse them."""
    soundfile = pytest.importorskip("soundfile")
    time = np.arange(6000) / 16000
    tones = np.sin(2 * np.pi * 440 * time)[:, None] * [0.5, 0.3] + np.random.default_rng(2).normal(0, 0.02, (6000, 2))
    soundfile.write(tmp_path / "a.sound", tones, 16000, format=format, subtype=subtype)
    path = manifest(tmp_path / "m", *({"audio_filepath": str(tmp_path / "a.sound"), **part} for part in PARTS))

    def refused(data, what):
        raise NotDecoded(what)

    with monkeypatch.context() as patches:
        patches.setattr(audio_formats, "WholeSound", refused)
        wanted, *_ = reader([path], len(PARTS), **options).run()
    monkeypatch.setitem(sys.modules, "soundfile", None)
    found, *_ = reader([path], len(PARTS), **options).run()
    unit = 1 if "dtype" in options and apart else apart  # integers of Vorbis may be rounded to either side
    for k in range(len(PARTS)):
        assert np.asarray(found[k]).shape == np.asarray(wanted[k]).shape
        np.testing.assert_allclose(np.asarray(found[k]), np.asarray(wanted[k]), rtol=0, atol=unit)


def test_short_parts_are_left_to_libsndfile(tmp_path, monkeypatch):
    """The compiled decoders decode whole files, and libsndfile seeks."""
    soundfile = pytest.importorskip("soundfile")
    soundfile.write(tmp_path / "a.flac", np.zeros((9000, 1), np.int16), 16000)
    whole, own = [], audio_formats.WholeSound

    def counting(data, what):
        whole.append(what)
        return own(data, what)

    monkeypatch.setattr(audio_formats, "WholeSound", counting)
    seconds = 9000 / 16000
    for offset, duration, count in ((0.0, -1.0, 1), (0.0, 0.4 * seconds, 1), (0.0, 0.3 * seconds, 0), (0.8 * seconds, -1.0, 0)):
        whole.clear()
        with open(tmp_path / "a.flac", "rb") as file:
            decode_audio(file, np.dtype(np.int16), offset=offset, duration=duration)
        assert len(whole) == count, (offset, duration)


def test_what_cannot_be_read_without_soundfile(tmp_path, monkeypatch):
    soundfile = pytest.importorskip("soundfile")
    soundfile.write(tmp_path / "whole.flac", np.random.default_rng(1).integers(-99, 99, (9000, 1)).astype(np.int16), 16000)
    (tmp_path / "half.flac").write_bytes((tmp_path / "whole.flac").read_bytes()[:5000])
    soundfile.write(tmp_path / "opus.ogg", np.zeros((4800, 1)), 48000, format="OGG", subtype="OPUS")
    soundfile.write(tmp_path / "law.wav", np.zeros((480, 1)), 8000, format="WAV", subtype="ULAW")
    soundfile.write(tmp_path / "a.aiff", np.zeros((480, 1)), 8000, format="AIFF", subtype="PCM_16")
    monkeypatch.setitem(sys.modules, "soundfile", None)
    for name, what in {
        "half.flac": "a FLAC file that is damaged", "opus.ogg": "an Ogg file that is damaged, or not one stream of Vorbis",
        "law.wav": "a WAV file of kind 7 with 8 bits", "a.aiff": "a file that begins with b'FORM'",
    }.items():  # fmt: skip
        with pytest.raises(RuntimeError) as caught:
            reader([manifest(tmp_path / "m", {"audio_filepath": str(tmp_path / name)})]).run()
        message, cause = str(caught.value), caught.value
        while cause is not None:
            assert not isinstance(cause, NotDecoded)  # one error, without the steps that led to it
            cause = cause.__cause__ or cause.__context__
        assert f"{name}: {what}" in message and "Ogg Vorbis can" in message and "pip install asyncdali[audio]" in message


def test_resampling_keeps_a_tone(tmp_path):
    time = np.arange(8000) / 8000
    tone = np.sin(2 * np.pi * 440 * time)[:, None]
    for rate in (11025, 16000, 5000.5):
        found = resample(tone, 8000, rate, 50)[:, 0]
        wanted = np.sin(2 * np.pi * 440 * np.arange(len(found)) / rate)
        assert len(found) == int(np.ceil(rate)) and abs(found - wanted)[100:-100].max() < 0.01


def test_filters_and_arguments(tmp_path):
    tone = written(tmp_path / "a.wav", np.zeros((80, 1), "<i2"))
    entries = [{"audio_filepath": tone, "duration": 0.5 * k} for k in range(4)]
    path = manifest(tmp_path / "m", *entries, {"audio_filepath": tone})
    limits = ({}, {"min_duration": 0.6}, {"max_duration": 1.0}, {"min_duration": 0.5})
    counts = [reader([path], **more).epoch_size("R") for more in limits]
    assert counts == [5, 2, 4, 3]
    cases = [
        ({"min_duration": 99.0}, "No files found"), ({"dtype": types.UINT8}, "Unsupported output type: UINT8"),
        ({"quality": -1.0}, r"0..100"),
        ({"sample_rate": 1e12}, "sample_rate"),
    ]  # fmt: skip
    for arguments, message in cases:
        with pytest.raises((RuntimeError, ValueError), match=message):
            reader([path], **arguments)
    for paths, message in (([], "can not be empty"), (["/no/such"], 'Could not open NEMO ASR manifest file: "/no/such"')):
        with pytest.raises(RuntimeError, match=message):
            reader(paths)


def test_damaged_audio_names_the_file(tmp_path):
    good = open(written(tmp_path / "good.wav", np.zeros((80, 1), "<i2")), "rb").read()
    cases = [
        good[:8] + b"XXXX" + good[12:], good[:20], good[:36], good[:22] + b"\0\0" + good[24:], good[:20] + b"\x99\x99" + good[22:], b"",
        b"RIFX" + good[4:], good[:12] + good[36:], good[:16] + b"\x04\0\0\0" + good[20:], b"no sound at all",
    ]  # fmt: skip
    entries = []
    for k, data in enumerate(cases):
        (tmp_path / f"x{k}.wav").write_bytes(data)
        entries.append({"audio_filepath": str(tmp_path / f"x{k}.wav")})
    entries += [{"audio_filepath": str(tmp_path)}, {"audio_filepath": "/no/such"}]
    entries.append({"audio_filepath": str(tmp_path / "good.wav"), "offset": 5})
    pipe = reader([manifest(tmp_path / "m", *entries, {"audio_filepath": str(tmp_path / "good.wav")})])
    for entry in entries:
        with pytest.raises(RuntimeError) as caught:
            pipe.run()
        assert entry["audio_filepath"] in str(caught.value)
    assert np.asarray(pipe.run()[0][0]).shape == (80,)


def test_a_header_with_an_impossible_sampling_rate(tmp_path):
    """A few bytes of a hostile file must not cause hours of computation."""
    sound = written(tmp_path / "a.wav", np.zeros((4000, 1), "<i2"), rate=1)
    with pytest.raises(RuntimeError, match=r"(?s)sample 0.*a\.wav: 4000 samples at 1 Hz would be 64000000 at 16000 Hz"):
        reader([manifest(tmp_path / "m", {"audio_filepath": sound})], sample_rate=16000).run()
    slow = written(tmp_path / "b.wav", np.zeros((40, 1), "<i2"), rate=100)
    assert len(np.asarray(reader([manifest(tmp_path / "n", {"audio_filepath": slow})], sample_rate=16000).run()[0][0])) == 6400


def _riff(kind, bits, channels, rate, data, more=b""):
    head = struct.pack("<HHIIHH", kind, channels, rate, 0, 0, bits)
    body = b"WAVE" + more + b"fmt " + struct.pack("<I", len(head)) + head + b"data" + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", len(body)) + body


_NUMBERS = np.random.default_rng(3).uniform(-1, 1, 60_000)
_FILES = {
    "small16": _riff(1, 16, 1, 8000, (_NUMBERS[:900] * 2**15).astype("<i2").tobytes()),
    "large16": _riff(1, 16, 1, 8000, (_NUMBERS * 2**15).astype("<i2").tobytes()),
    "large24": _riff(1, 24, 1, 8000, b"".join(int(n * 2**23).to_bytes(3, "little", signed=True) for n in _NUMBERS[:50_000])),
    "large8": _riff(1, 8, 1, 8000, (_NUMBERS * 127 + 128).astype("u1").tobytes()),
    "float": _riff(3, 32, 1, 8000, _NUMBERS.astype("<f4").tobytes()),
    "double": _riff(3, 64, 1, 8000, _NUMBERS.astype("<f8").tobytes()),
    "stereo": _riff(1, 16, 2, 16000, (_NUMBERS * 2**15).astype("<i2").tobytes()),
    "other rate": _riff(1, 16, 1, 11025, (_NUMBERS[:5000] * 2**15).astype("<i2").tobytes()),
    "long head": _riff(1, 16, 1, 8000, (_NUMBERS[:5000] * 2**15).astype("<i2").tobytes(), b"LIST" + struct.pack("<I", 6000) + bytes(6000)),
}
"""WAV files that compiled code reads, and such that are left to the interpreter."""


@pytest.mark.parametrize("options", [{}, {"downmix": False}, {"sample_rate": 8000.0}, {"sample_rate": 9000.5}], ids=str)
@pytest.mark.parametrize("dtype", [types.FLOAT, types.INT16, types.INT32], ids=str)
def test_parts_of_files_are_equal_to_those_of_the_interpreter(tmp_path, options, dtype):
    entries, wanted = [], []
    for name, data in _FILES.items():
        (tmp_path / name).write_bytes(data)
        for offset, duration in ((0.0, -1.0), (0.05, -1.0), (0.011, 0.0601), (0.02, 99.0), (0.1, 0.0), (-3.0, 0.05)):
            entries.append({"audio_filepath": str(tmp_path / name), "offset": offset, "duration": duration})
            settings = {"downmix": options.get("downmix", True), "rate": options.get("sample_rate", 0.0)}
            with open(tmp_path / name, "rb") as file:
                wanted.append(decode_audio(file, storage_dtype(dtype), offset=offset, duration=duration, **settings))
    sounds, rates, _ = reader([manifest(tmp_path / "m", *entries)], len(entries), dtype=dtype, **options).run()
    for sample, (sound, rate) in enumerate(wanted):
        np.testing.assert_array_equal(np.asarray(sounds[sample]), sound, err_msg=str(entries[sample]))
        assert float(np.asarray(rates[sample])) == rate


def test_a_file_that_becomes_shorter_is_left_to_the_interpreter(tmp_path, monkeypatch):
    """The head is read before the samples. A file that was truncated in between is decoded again, and only its own error is reported."""
    (tmp_path / "a").write_bytes(_FILES["large16"])
    pipe = reader([manifest(tmp_path / "m", {"audio_filepath": str(tmp_path / "a")})])
    reserve = Batch.reserve

    def truncated(batch, allocate):
        with open(tmp_path / "a", "r+b") as file:
            file.truncate(10_000)
        reserve(batch, allocate)

    monkeypatch.setattr(Batch, "reserve", truncated)
    (sound, *_) = pipe.run()
    assert np.asarray(sound[0]).shape == ((10_000 - 44) // 2,)


def kept(tmp_path, *lines):
    """(the entries of a manifest with these lines, the warnings)."""
    data = b"\n".join(line if isinstance(line, bytes) else line.encode("utf-8", "surrogatepass") for line in lines)
    (tmp_path / "m").write_bytes(data)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        entries = read_manifest(str(tmp_path / "m"), 0.0, 0.0)
    return entries, [str(item.message) for item in seen]


def test_null_counts_as_missing(tmp_path):
    """Tools that write tables as manifests store null for an empty cell."""
    entries, seen = kept(
        tmp_path, '{"audio_filepath": "a", "offset": null, "duration": 2, "text": "x"}', '{"audio_filepath": "b", "duration": null}',
        '{"audio_filepath": "c", "text": null, "offset": 1}',
    )  # fmt: skip
    assert not seen
    found = [(entry.path, entry.offset, entry.duration, entry.text) for entry in entries]
    assert found == [("a", 0.0, 2.0, b"x"), ("b", 0.0, -1.0, b""), ("c", 1.0, -1.0, b"")]


def test_commas_behind_entries(tmp_path):
    """DALI reads them. They were skipped with a warning, and a manifest of such lines was empty."""
    entries, seen = kept(tmp_path, '{"audio_filepath": "a"},', '{"audio_filepath": "b"} , \r', '{"audio_filepath": "c"}')
    assert [entry.path for entry in entries] == ["a", "b", "c"] and not seen


@pytest.mark.parametrize("field", ["offset", "duration"])
@pytest.mark.parametrize("value", ["Infinity", "-Infinity", "NaN", "1e999", "1" + 400 * "0", "true", "[1]", "{}", '"x"', '"inf"'])
def test_times_that_are_no_finite_numbers(tmp_path, field, value):
    good = '{"audio_filepath": "good"}'
    entries, seen = kept(tmp_path, good, f'{{"audio_filepath": "bad", "{field}": {value}}}', good)
    assert [entry.path for entry in entries] == ["good", "good"]
    assert len(seen) == 1 and f"line 2 is not a manifest entry and is skipped: {field} is" in seen[0]


def test_half_of_a_surrogate_pair(tmp_path):
    entries, seen = kept(
        tmp_path, r'{"audio_filepath": "a", "text": "x\ud800y\ud83d\ude00\udc80"}', r'{"audio_filepath": "\ud800", "text": "x"}',
    )  # fmt: skip
    assert [(entry.path, entry.text.decode()) for entry in entries] == [("a", "x\ufffdy\U0001f600\ufffd")]
    assert len(seen) == 1 and "line 2" in seen[0] and "no file can have" in seen[0]


def test_line_ends_and_marks(tmp_path):
    entries, seen = kept(tmp_path, '\ufeff{"audio_filepath": "a"}\r', "\r", "   ", "", '\t{"audio_filepath": "b"} \r')
    assert [entry.path for entry in entries] == ["a", "b"] and not seen


def test_times_beyond_every_file(tmp_path):
    """The products with the sampling rate are infinite."""
    for name in ("small16", "stereo"):  # the former is read by compiled code
        (tmp_path / name).write_bytes(_FILES[name])
        path = str(tmp_path / name)
        whole = reader([manifest(tmp_path / "w", {"audio_filepath": path})]).run()[0][0]
        found = reader([manifest(tmp_path / "m", {"audio_filepath": path, "duration": 1.7e308})]).run()[0][0]
        np.testing.assert_array_equal(np.asarray(found), np.asarray(whole))
        with pytest.raises(RuntimeError, match=rf"{name}: offset 1.7e\+308 s lies beyond the end"):
            reader([manifest(tmp_path / "n", {"audio_filepath": path, "offset": 1.7e308})]).run()


def test_fields_of_odd_types_are_named(tmp_path):
    lines = ("5", "[1]", "null", '{"text": "x"}', '{"audio_filepath": 5}', '{"audio_filepath": ""}', '{"audio_filepath": "a", "text": 5}')
    entries, seen = kept(tmp_path, *lines, b'{"audio_filepath": "\xff"}')
    assert not entries and len(seen) == len(lines) + 1
    for line, what in enumerate(("a JSON int", "a JSON list", "a JSON NoneType", "is None", "is 5", "is ''", "text is 5", "codec"), 1):
        assert f"line {line} " in seen[line - 1] and what in seen[line - 1]


@pytest.mark.parametrize("dtype", [types.FLOAT, types.INT16], ids=str)
def test_a_recording_of_a_killed_writer(tmp_path, dtype):
    """The writer sets the sizes when it closes the file. libsndfile's writer leaves 8 and 0, and readers take what is there."""
    for name in ("small16", "large16", "large24", "float", "stereo"):
        good = _FILES[name]
        (tmp_path / "good").write_bytes(good)
        killed = good[:4] + struct.pack("<I", 8) + good[8:40] + bytes(4) + good[44:]
        (tmp_path / "killed").write_bytes(killed + b"\0")  # a byte that is no whole sample
        entries = [{"audio_filepath": str(tmp_path / name), "offset": offset} for name in ("good", "killed") for offset in (0.0, 0.05)]
        sounds, *_ = reader([manifest(tmp_path / "m", *entries)], 4, dtype=dtype).run()
        for k in (0, 1):
            assert len(np.asarray(sounds[k])) > 400
            np.testing.assert_array_equal(np.asarray(sounds[k]), np.asarray(sounds[2 + k]))


def damaged_set(folder, chance):
    """A data set with damage: a manifest with wrong values, and sound files with wrong bytes. Returns the manifest's path."""
    values = (
        "null", "Infinity", "-Infinity", "NaN", "1e999", "1" + 350 * "0", "1e300", "-1", "0", "0.01", "true", '"x"', '"0.02"', "[]", "{}",
        r'"\ud800"', r'"\udc80x"', '""', '"a\\u0000"', "[[[1]]]", '"../b"', '"/no/such"', '"."',
    )  # fmt: skip
    sounds = [_FILES["small16"], _FILES["stereo"][:6000], _FILES["double"][:4000], *files("FLAC")[2:], files("OGG")[1], *files("AIFF")[:2]]
    lines = []
    for k in range(chance.randrange(1, 5)):
        sound = chance.choice(sounds)
        if chance.random() < 0.6:
            sound = damaged(sound, chance)
        (folder / f"{k}").write_bytes(sound)
        fields = {"audio_filepath": json.dumps(str(folder / f"{k}")), "offset": "0.01", "duration": "0.02", "text": '"w\\u00f6rd"'}
        for field in list(fields):
            if chance.random() < 0.2:
                fields[field] = chance.choice(values)
            elif chance.random() < 0.2:
                del fields[field]
        lines.append("{" + ", ".join(f'"{field}": {value}' for field, value in fields.items()) + "}")
    data = chance.choice((b"\n", b"\r\n", b"\n\n")).join(line.encode() for line in lines)
    if chance.random() < 0.3:
        data = damaged(data, chance)
    (folder / "m").write_bytes(chance.choice((b"", b"\xef\xbb\xbf")) + data)
    return str(folder / "m")


@pytest.mark.filterwarnings("ignore:.*is not a manifest entry")
@pytest.mark.parametrize("count", [150, pytest.param(10_000, marks=pytest.mark.slow)])
def test_damaged_data_sets_have_no_raw_errors(tmp_path, count):
    """Every failure is an error that names the data, and other entries of the batch are not its victims."""
    pytest.importorskip("soundfile")
    read = failed = 0
    for number in range(count):
        chance = random.Random(number)
        path = damaged_set(tmp_path, chance)
        options = chance.choice(({}, {"downmix": False}, {"dtype": types.INT16}, {"sample_rate": 9000.0}, {"min_duration": 0.01}))
        try:
            with np.errstate(all="ignore"), reader([path], 2, **options) as pipe:
                for _ in range(2):
                    pipe.run()
            read += 1
        except (OverflowError, KeyError, TypeError, UnicodeError, AttributeError, MemoryError, RecursionError) as error:
            raise AssertionError(f"data set {number}: a raw error") from error
        except (RuntimeError, ValueError, OSError):
            failed += 1
    print(f"{count} data sets: {read} read, {failed} refused")
    assert read > count // 10 and failed > count // 10
