"""The compiled decoder of Vorbis beside libsndfile's: usual, unusual, damaged and hostile files."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import io
import re
import struct
import sys

import numpy as np
import pytest
from helpers.guarded import Arena
from helpers.marks import slow
from helpers.ogg import frames_of, packets_of, written
from helpers.operators import batch_of, first_iteration, make, prepare, run_operator

from asyncdali import types
from asyncdali.codecs.audio import audio_formats, vorbis_setup
from asyncdali.codecs.audio.compiled_sounds import NotDecoded
from asyncdali.operators.base import Arguments, CompiledJob, SampleError
from asyncdali.operators.decode import audio_decoder

soundfile = pytest.importorskip("soundfile")
TOLERANCE = 1e-6


def signal(count, channels=1, rate=16000, seed=0):
    """Tones in noise that comes and goes, so that blocks have both sizes."""
    random, time = np.random.default_rng(seed), np.arange(count) / rate
    tones = 0.4 * np.sin(2 * np.pi * 440 * time)[:, None] * np.linspace(0.2, 1, channels)
    return tones + random.normal(0, 0.05, (count, channels)) * (time * 20 % 2 < 1)[:, None]


def encoded(samples, rate=16000, level=0.5):
    file = io.BytesIO()
    with soundfile.SoundFile(file, "w", rate, samples.shape[1], format="OGG", subtype="VORBIS", compression_level=level) as sound:
        for begin in range(0, len(samples), 20000):  # libsndfile's encoder overflows its stack with more
            sound.write(samples[begin : begin + 20000])
    return file.getvalue()


def expected(data):
    """The samples that libsndfile finds."""
    return soundfile.read(io.BytesIO(data), dtype="float32", always_2d=True)[0]


@pytest.fixture
def interpreted(monkeypatch):
    """The number of samples of each file that libsndfile decoded."""
    counts = []

    def counting(*arguments, **options):
        made = audio_formats.decode_audio(*arguments, **options)
        counts.append(len(made[0]))
        return made

    monkeypatch.setattr(audio_decoder, "decode_audio", counting)
    return counts


def decoded(data, **options):
    return run_operator("decoders.audio", [data], **options)[0]


def check(data, interpreted, by_compiled_code=True):
    """Compare with libsndfile, and check which of both decoded the file."""
    interpreted.clear()
    found = decoded(data)
    assert (not interpreted) == by_compiled_code
    check_close(found, expected(data))
    return found


def check_close(found, wanted):
    np.testing.assert_allclose(found, wanted, atol=TOLERANCE * max(1, abs(wanted).max(initial=0)), rtol=0)


# --- files of an encoder


@pytest.mark.parametrize("rate", [8000, 16000, 44100, 96000])
@pytest.mark.parametrize("channels", [1, 2, 3, 6, 8])
@pytest.mark.parametrize("counts", [(1, 100, 3000), *slow(((30000,),))], ids=["short", "long"])
def test_rates_channels_and_qualities(rate, channels, counts, interpreted):
    for level in (0.0, 0.3, 0.6, 1.0):
        for count in counts:
            assert len(check(encoded(signal(count, channels, rate), rate, level), interpreted)) == count


def test_integers(interpreted):
    loud = encoded(signal(9000, 2) * 3)  # values out of range are limited
    reals = np.float64(expected(loud))
    for dtype, most in ((types.INT16, 2.0**15 - 1), (types.INT32, 2.0**31 - 1)):
        made = decoded(loud, dtype=dtype)
        assert abs(np.clip(reals * most, -most - 1, most) - made).max() <= 1 + TOLERANCE * most
        assert made.max() == most and made.min() == -most - 1
    assert not interpreted


def test_a_batch_of_mixed_formats(interpreted):
    wave = io.BytesIO()
    soundfile.write(wave, signal(500), 16000, format="WAV")
    opus = io.BytesIO()
    soundfile.write(opus, signal(4800), 48000, format="OGG", subtype="OPUS")
    files = [encoded(signal(3000)), opus.getvalue(), wave.getvalue(), encoded(signal(700))]
    for data, made in zip(files, run_operator("decoders.audio", files), strict=True):
        check_close(made, expected(data))
    assert interpreted == [4800]


def test_without_soundfile(monkeypatch):
    data = encoded(signal(3000))
    wanted = expected(data)
    monkeypatch.setitem(sys.modules, "soundfile", None)
    check_close(decoded(data), wanted)


# --- other files with the same packets


@pytest.fixture(scope="module")
def stereo():
    """(the packets, the number of samples) of a file."""
    data = encoded(signal(20000, 2, 44100), 44100, 0.4)
    return packets_of(data), frames_of(data)


@pytest.mark.parametrize("per_page", [1, 2, 3, 7, 40, 255])
def test_packets_that_span_pages(stereo, per_page, interpreted):
    packets, frames = stereo
    made = check(written(packets, frames, per_page), interpreted)
    assert len(made) == frames


@pytest.mark.parametrize("length", [0, 1, 300, 70_000, 300_000])
def test_texts_of_any_length(stereo, length, interpreted):
    packets, frames = stereo
    texts = b"\3vorbis" + struct.pack("<I", 4) + b"name" + struct.pack("<II", 2, 3) + b"A=b" + struct.pack("<I", length) + b"x" * length
    check(written([packets[0], texts + b"\1", *packets[2:]], frames), interpreted)
    interpreted.clear()
    check_outcome(written([packets[0], texts[:-8], *packets[2:]], frames))  # The texts are longer than the packet.
    assert interpreted


def test_long_packets(stereo, interpreted):
    """Bytes behind the end of a block mean nothing. The scratch of a thread has room for packets of 64 KB behind another page."""
    packets, frames = stereo
    for length, compiled in ((60_000, True), (120_000, True), (200_000, False)):
        longer = [*packets[:5], packets[5] + bytes(length), *packets[6:]]
        check(written(longer, frames), interpreted, compiled)


def test_packets_that_end_early(stereo, interpreted):
    """The specification wants them to be decoded as far as they go."""
    packets, frames = stereo
    for keep in (1, 2, 5, 20, 60):
        shorter = [*packets[:6], packets[6][:keep], packets[7][:keep], *packets[8:]]
        check(written(shorter, frames), interpreted)


def test_residues_of_type_0(stereo, interpreted, monkeypatch):
    """No encoder writes them. The same bits are other sounds then, which libvorbis decodes, too."""
    places, own = [], vorbis_setup._Headers._residue

    def noting(self):
        places.append(self._bits._at)
        return own(self)

    monkeypatch.setattr(vorbis_setup._Headers, "_residue", noting)
    for channels in (1, 2):
        data = encoded(signal(9000, channels, 44100), 44100, 0.45)
        packets, frames = packets_of(data), frames_of(data)
        places.clear()
        assert vorbis_setup._Headers(packets[0], packets[2]).setup.address
        for kind in (0, 1):
            number = int.from_bytes(packets[2], "little")
            for place in places:
                number = number >> (place + 16) << (place + 16) | kind << place | number & ((1 << place) - 1)
            changed = [*packets[:2], number.to_bytes(len(packets[2]), "little"), *packets[3:]]
            with np.errstate(all="ignore"):
                check(written(changed, frames), interpreted)


def test_unusual_streams_are_left_to_libsndfile(stereo, interpreted):
    packets, frames = stereo
    whole = written(packets, frames)
    two = whole + written(packets, frames, serial=8)
    for data in (two, whole + b"abc", whole[:-1], whole.replace(b"OggS\0\4", b"OggS\0\0")):
        try:
            found = decoded(data)
        except SampleError:
            continue
        assert interpreted.pop() == len(found)
    assert not interpreted


# --- parts of files


def part(data, first, count, dtype=np.float32, rate=16000):
    """`count` samples from sample `first` on."""
    begin, length = (first + 0.5) / rate, (count + 0.5) / rate
    return audio_formats.decode_audio(io.BytesIO(data), np.dtype(dtype), offset=begin, duration=length)[0]


@pytest.mark.parametrize("per_page", [0, 1, 2, 3, 40, 255])
def test_parts_are_parts_of_the_whole(per_page, monkeypatch):
    """Decoding begins at a page within the file. The samples are those of the whole, bit by bit, without libsndfile."""
    data = encoded(signal(60_000, 2))
    data = written(packets_of(data), frames_of(data), per_page) if per_page else data
    monkeypatch.setitem(sys.modules, "soundfile", None)
    random, whole = np.random.default_rng(per_page), {dtype: decoded(data, dtype=dtype) for dtype in (types.FLOAT, types.INT16)}
    windows = [(0, 1), (0, 60_000), (59_999, 1), (60_000, 0), (1, 59_999), (30_000, 0)]
    for first in random.integers(0, 60_000, 60).tolist():
        windows.append((first, int(random.integers(0, 60_001 - first))))
    for first, count in windows:
        for dtype, made in ((types.FLOAT, np.float32), (types.INT16, np.int16)):
            np.testing.assert_array_equal(part(data, first, count, made), whole[dtype][first : first + count], err_msg=f"{first} {count}")


def part_outcome(data, first, count, rate=16000):
    try:
        return part(data, first, count, rate=rate)
    except ValueError as error:
        return str(error)


@pytest.mark.parametrize("alone", [False, True], ids=["with soundfile", "without soundfile"])
def test_damaged_files_have_no_parts_where_the_whole_is_refused(alone, monkeypatch):
    """libsndfile leaves damaged pages out, so that all samples behind them are at wrong places; and it crashes when it seeks there."""
    random, data = np.random.default_rng(9), encoded(signal(40_000))
    packets, frames = packets_of(data), frames_of(data)
    if alone:
        monkeypatch.setitem(sys.modules, "soundfile", None)
    kept = refused = 0
    for turn in range(120):
        broken = damaged(data, random) if turn % 2 else with_damaged_packets(packets, frames, random, 0, len(packets))
        with np.errstate(all="ignore"):
            try:
                whole = audio_formats.decode_audio(io.BytesIO(broken), np.dtype(np.float32))[0]
            except ValueError:
                whole = None
            for first in (0, 1, 20_000, 39_000):
                found = part_outcome(broken, first, 500)
                if whole is None:
                    assert isinstance(found, str), (turn, first)
                    refused += 1
                elif first + 500 <= len(whole):
                    np.testing.assert_array_equal(found, whole[first : first + 500], err_msg=f"{turn} {first}")
                    kept += 1
    assert kept > 20 and refused > 20


def test_libsndfile_does_not_seek_in_streams_of_vorbis(stereo, monkeypatch):
    """Right checksums and unusual positions: such files reach libsndfile, which ends the process when it seeks in some of them."""
    packets, frames = stereo
    whole = written(packets, frames)
    chained = whole + written(packets, frames, serial=8)

    def refused(*_):
        raise AssertionError("libsndfile seeks")

    monkeypatch.setattr(soundfile.SoundFile, "seek", refused)
    expected_samples = audio_formats.decode_audio(io.BytesIO(chained), np.dtype(np.float32))[0]
    found = part(chained, 15_000, 300, rate=44100)
    np.testing.assert_array_equal(found, expected_samples[15_000:15_300])


def test_parts_of_opus():
    memory = io.BytesIO()
    soundfile.write(memory, signal(240_000, rate=48_000), 48_000, format="OGG", subtype="OPUS")
    data = memory.getvalue()
    check_close(part(data, 200_000, 500, rate=48_000), expected(data)[200_000:200_500])
    broken = bytearray(data)
    broken[len(data) // 2] ^= 1  # A page is lost, so nothing behind it is where it should be.
    assert data.count(b"OggS") > 5
    assert re.search("the file ends after|Error decoding", part_outcome(bytes(broken), 200_000, 500, 48_000))


# --- damaged files


def outcome(data):
    try:
        return decoded(data)
    except SampleError as error:
        return str(error).splitlines()[0]


def only_libsndfile(data):
    def refused(data, what):
        raise NotDecoded(what)

    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(audio_formats, "WholeSound", refused)
        try:
            return audio_formats.decode_audio(io.BytesIO(data), np.dtype(np.float32))[0]
        except ValueError as error:
            return str(error)


def check_outcome(data):
    made, wanted = outcome(data), only_libsndfile(data)
    assert type(made) is type(wanted), (made, wanted)
    if isinstance(made, str):
        assert wanted in made
    else:
        check_close(made, wanted)


def damaged(whole, random):
    data = bytearray(whole)
    for at in random.integers(0, 200 if random.integers(2) else len(data), random.integers(1, 4)):
        data[at] ^= 1 << random.integers(8)
    return bytes(data[: len(data) if random.integers(3) else random.integers(1, len(data))])


def test_damaged_files_have_the_outcome_of_libsndfile():
    random, whole = np.random.default_rng(5), encoded(signal(6000, 2))
    for _ in range(60):
        check_outcome(damaged(whole, random))


def with_damaged_packets(packets, frames, random, first, last):
    """Bits of some packets changed, and these packets cut; the checksums of the pages are right."""
    made = list(packets)
    for k in random.integers(first, last, 2):
        packet = bytearray(made[k])
        for at in random.integers(0, len(packet), random.integers(1, 6)):
            packet[at] ^= 1 << random.integers(8)
        made[k] = bytes(packet[: len(packet) if random.integers(3) else random.integers(1, len(packet) + 1)])
    return written(made, frames, original=packets)


def test_damaged_sound_has_the_outcome_of_libsndfile():
    data, random = encoded(signal(6000, 2)), np.random.default_rng(6)
    packets, frames = packets_of(data), frames_of(data)
    for _ in range(60):
        check_outcome(with_damaged_packets(packets, frames, random, 3, len(packets)))


def test_hostile_files_stay_in_their_memory():
    """Files, samples and scratch end at guard pages. Any bits of headers and packets may be wrong; the checksums are right."""
    random, arena = np.random.default_rng(7), Arena()
    files = [
        encoded(signal(4000, channels, rate), rate, level) for channels, rate, level in ((1, 8000, 0.1), (2, 44100, 0.9), (6, 16000, 0.5))
    ]
    compiled = 0
    for whole in files:
        packets, frames = packets_of(whole), frames_of(whole)
        for turn in range(250):
            first, last = ((2, 3), (3, len(packets)), (0, len(packets)))[turn % 3]
            data = with_damaged_packets(packets, frames, random, first, last)
            compiled += decode_between_guards(arena, data)
            arena.check()
            arena.clear()
    assert compiled > 200  # Most of these files reach the decoder.


def decode_between_guards(arena, data):
    """Let compiled code decode a file. Returns whether it decoded any part."""
    file = arena.take(len(data))
    file[:] = np.frombuffer(data, np.uint8)
    source = batch_of([file])
    operator = make("decoders.audio", 1, {}, {})
    operator.environment = dataclasses.replace(operator.environment, allocate=arena.take)
    ran = False

    def work(job):
        nonlocal ran
        if isinstance(job, CompiledJob):
            ran = True
            for step in job.steps:
                scratch = arena.take(step.scratch_bytes)
                step.place_scratch(0)
                thread = np.array([scratch.ctypes.data, len(scratch), 0, 0], np.int64)
                ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 3)(step.function)(step.context.ctypes.data, 0, thread.ctypes.data)
        else:
            raise Left

    with contextlib.suppress(Left), np.errstate(all="ignore"):
        prepare(operator, [source], Arguments(operator.spec, {}, 1), first_iteration(operator, 1), work)
    return ran


class Left(Exception):
    """A file is left to libsndfile."""


def test_headers_that_ask_for_much_memory():
    """A book of a few bytes can have a million numbers."""
    bits, count = [], 0

    def put(value, width):
        nonlocal count
        bits.append(value << count)
        count += width

    put(int.from_bytes(b"\5vorbis", "little"), 56)
    put(255, 8)
    for _ in range(256):
        put(0x564342, 24), put(65535, 16), put(16, 24), put(0, 2)
        for _ in range(16):
            put(3, 5)
        put(1, 4), put(0, 32), put(0, 32), put(0, 4), put(0, 1), put(1, 1)
    packet = sum(bits).to_bytes(-(-count // 8), "little")
    identification = b"\1vorbis" + struct.pack("<IBIiiiBB", 0, 1, 8000, 0, 0, 0, 0xB8, 1)
    assert vorbis_setup.setup_of(identification, packet) is None
    headers = vorbis_setup._Headers.__new__(vorbis_setup._Headers)
    with pytest.raises(vorbis_setup._Unknown):
        headers.__init__(identification, packet)
    assert headers.setup.bytes < 16 << 20
