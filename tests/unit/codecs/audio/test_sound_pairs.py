"""Damaged sound: every pair of ways to read a file has one result, and no file ends the process."""

from __future__ import annotations

import collections
import io
import json
import struct

import numpy as np
import pytest
from helpers.operators import run_operator
from helpers.sound_damage import KINDS, disagreements, file, files
from helpers.warm import run_warm

from asyncdali import types
from asyncdali.codecs.audio.audio_formats import decode_audio
from asyncdali.operators.base import SampleError

soundfile = pytest.importorskip("soundfile")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [50, pytest.param(25_000, marks=pytest.mark.slow)])
def test_pairs_of_decoders(kind, count):
    """Whole files and parts; compiled code, the interpreter and libsndfile; mixed and resampled; with and without `soundfile`."""
    first, crashes, totals, examples = 0, [], collections.Counter(), {}
    while first < count:
        done = run_warm(f"from helpers.sound_damage import main; main({kind!r}, {first}, {count})", timeout=3000)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        for number, accepted, disagreeing in (line for line in lines if len(line) == 3):
            totals["files"] += 1
            totals["accepted"] += accepted
            for name in disagreeing:
                totals[name] += 1
                examples.setdefault(name, []).append(number)
        if done.returncode == 0:
            break
        assert done.returncode < 0, done.stderr[-2000:]  # An exception is no crash of a C library.
        crashes.append((lines[-1][0], done.returncode))
        first = lines[-1][0] + 1
    print(f"{kind}: {dict(totals)}, crashes {crashes}")
    assert not crashes
    assert totals["files"] == count and totals["accepted"] > count // 25
    if kind in ("FLAC", "SUMS"):  # In FLAC and Opus, libsndfile seeks over damage.
        examples.pop("part of a refused file", None)
    assert not examples, examples


@pytest.mark.parametrize("kind, number, accepted", [
    ("SUMS", 244, True), ("AIFF", 15508, True), ("SUMS", 877, True), ("SUMS", 4394, False), ("SUMS", 5376, False),
    ("FLAC", 100568, True), ("FLAC", 102064, True),
])  # fmt: skip
def test_damaged_headers(kind, number, accepted):
    """Opus with pages of wrong contents, and AU with an offset of 0: the whole is read like a part, behind a seek. Opus that skips 0.6 s:
    parts are read without a seek. Vorbis with a rate above 31 bits: libsndfile refuses such a file.
    FLAC whose seeks fail: libsndfile reads such a file behind a seek to 0 only."""
    assert disagreements(*file(kind, number)) == (accepted, [])


def flac(samples, rate=8000):
    memory = io.BytesIO()
    soundfile.write(memory, samples, rate, format="FLAC", subtype="PCM_16")
    return memory.getvalue()


def with_block(data, kind, block):
    """A FLAC file with another block of metadata behind STREAMINFO."""
    return data[:42] + bytes([kind]) + len(block).to_bytes(3, "big") + block + data[42:]


PICTURE = struct.pack(">II", 3, 9) + b"image/png" + struct.pack(">I", 1) + b"x" + struct.pack(">IIIII", 1, 1, 24, 0, 5) + b"12345"
BLOCKS = {
    "padding": (1, bytes(40)), "application": (2, b"abcdefg"), "places": (3, bytes(36)), "places that do not fit": (3, bytes(37)),
    "picture": (6, PICTURE), "picture that is too short": (6, PICTURE[:-1]), "picture and more": (6, PICTURE + b"x"),
    "no picture": (6, b""),
    "STREAMINFO again": (0, bytes(34)), "unknown": (99, bytes(9)),
    "impossible": (127, bytes(9)), "tags that do not fit": (4, b"\xff" * 8),
    "tags and more": (4, bytes(20)), "cue sheet": (5, bytes(396)),
}  # fmt: skip


@pytest.mark.parametrize("kind, block", BLOCKS.values(), ids=BLOCKS.keys())
def test_metadata_of_flac_is_accepted_as_by_libsndfile(kind, block):
    samples = np.random.default_rng(1).integers(-(2**15), 2**15, (9000, 1)).astype(np.int16)
    data = with_block(flac(samples), kind, block)
    try:
        wanted = soundfile.read(io.BytesIO(data), dtype="int16", always_2d=True)[0]
    except soundfile.LibsndfileError:
        with pytest.raises(SampleError):
            run_operator("decoders.audio", [data], dtype=types.INT16)
        with pytest.raises(ValueError):
            decode_audio(io.BytesIO(data), np.dtype(np.int16), offset=0.5)
        return
    np.testing.assert_array_equal(run_operator("decoders.audio", [data], dtype=types.INT16)[0], wanted)
    np.testing.assert_array_equal(decode_audio(io.BytesIO(data), np.dtype(np.int16), offset=1.0)[0], wanted[8000:])


def test_a_largest_block_of_no_samples():
    """Such a file needed no scratch, so that its failure was overlooked: the output had what the memory had before."""
    samples = np.random.default_rng(1).integers(-99, 99, (9000, 1)).astype(np.int16)
    good = flac(samples)
    for block in (0, 1, 15):
        bad = good[:10] + struct.pack(">H", block) + good[12:]
        try:
            (found,) = run_operator("decoders.audio", [bad], dtype=types.INT16)
        except SampleError:
            continue
        np.testing.assert_array_equal(found, samples)


def test_damage_in_a_flac_file_outside_of_the_part():
    """The whole is refused. libsndfile seeks, so a part that is not damaged can be read."""
    samples = np.random.default_rng(1).integers(-(2**15), 2**15, (90_000, 1)).astype(np.int16)
    data = bytearray(flac(samples))
    data[len(data) // 4] ^= 255
    with pytest.raises(ValueError, match="flac decoder"):
        decode_audio(io.BytesIO(bytes(data)), np.dtype(np.int16))
    part, _ = decode_audio(io.BytesIO(bytes(data)), np.dtype(np.int16), offset=60_000.5 / 8000, duration=500.5 / 8000)
    np.testing.assert_array_equal(part, samples[60_000:60_500])


def test_a_seek_that_fails():
    """A table of places that leads behind the file; read from the begin, the file is sound."""
    samples = np.random.default_rng(1).integers(-(2**15), 2**15, (90_000, 1)).astype(np.int16)
    table = b"".join(struct.pack(">QQH", first, 1 << 40, 4096) for first in (0, 32_768, 65_536))
    data = with_block(flac(samples), 3, table)
    np.testing.assert_array_equal(decode_audio(io.BytesIO(data), np.dtype(np.int16))[0], samples)
    part, _ = decode_audio(io.BytesIO(data), np.dtype(np.int16), offset=70_000.5 / 8000, duration=500.5 / 8000)
    np.testing.assert_array_equal(part, samples[70_000:70_500])


def test_the_files_that_are_damaged_are_sound():
    for kind in KINDS:
        for data in files(kind):
            assert len(decode_audio(io.BytesIO(data), np.dtype(np.float32))[0]) >= 200


def test_a_wav_file_that_ends_within_the_size_of_its_data():
    memory = io.BytesIO()
    soundfile.write(memory, np.zeros((100, 1)), 8000, format="WAV", subtype="PCM_16")
    for size in range(36, 44):
        with pytest.raises(SampleError, match="there is no data chunk"):
            run_operator("decoders.audio", [memory.getvalue()[:size]])
