"""Decodes damaged sound files in every way, and prints where two ways disagree: ``python -m helpers.sound_damage KIND FIRST LAST``.

It is a program of its own, because a C library that crashes ends its process. The number of each file is printed before the file is read.
"""

from __future__ import annotations

import functools
import io
import json
import random
import struct
import sys
from typing import Any

import numpy as np

from asyncdali.codecs.audio import audio_formats
from asyncdali.codecs.audio.audio_formats import SoundPart, _other, decode_audio
from asyncdali.operators.base import SampleError

from .ogg import checksum
from .operators import run_operator

KINDS = ("WAV", "FLAC", "OGG", "SUMS", "AIFF")
"""SUMS: Ogg files whose pages have the right checksums in spite of the damage."""
_FLOAT = np.dtype(np.float32)


def _encoded(count: int, channels: int, rate: int, kind: str, subtype: str) -> bytes:
    import soundfile

    noise = np.random.default_rng(count).normal(0, 0.02, (count, channels))
    memory = io.BytesIO()
    tones = np.sin(np.outer(np.arange(count), [1 / 9, 1 / 7][:channels])) * 0.4
    soundfile.write(memory, tones + noise, rate, format=kind, subtype=subtype)
    return memory.getvalue()


def _riff(data: bytes, bits: int, kind: int = 1, before: bytes = b"", more: bytes = b"") -> bytes:
    head = struct.pack("<HHIIHH", kind, 1, 8000, 1000 * bits, bits // 8, bits) + more
    body = b"WAVE" + before + b"fmt " + struct.pack("<I", len(head)) + head + b"data" + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", len(body)) + body


@functools.cache
def files(kind: str) -> list[bytes]:
    """Sound files of a kind. WAV files have no chunks that libsndfile reads and other decoders skip."""
    if kind == "SUMS":
        return files("OGG")
    if kind == "WAV":
        tone = np.sin(np.arange(200) / 9) * 0.5
        short, wide = (tone * 2**15).astype("<i2").tobytes(), (tone * 2**31).astype("<i4")
        guid = struct.pack("<HHIH", 22, 16, 4, 1) + bytes.fromhex("000000001000800000aa00389b71")
        return [
            _riff(short, 16), _riff(short, 16, before=b"junk\5\0\0\0abcde\0"), _riff(short, 16, 0xFFFE, more=guid),
            _riff((tone * 127 + 128).astype("u1").tobytes(), 8), _riff(wide.tobytes(), 32), _riff(tone.astype("<f4").tobytes(), 32, 3),
            _riff(tone.astype("<f8").tobytes(), 64, 3), _riff(wide.view("u1").reshape(-1, 4)[:, 1:].tobytes(), 24),
            _encoded(2000, 1, 8000, "WAV", "IMA_ADPCM"), _encoded(200, 1, 8000, "WAV", "ULAW"), _encoded(640, 1, 8000, "WAV", "GSM610"),
        ]  # fmt: skip
    made = {
        "FLAC": [(6000, 1, 8000, "PCM_16"), (5000, 2, 44100, "PCM_16"), (3000, 1, 8000, "PCM_24"), (3000, 1, 8000, "PCM_S8")],
        "OGG": [(40_000, 1, 16000, "VORBIS"), (9000, 2, 44100, "VORBIS"), (48_000, 1, 48000, "OPUS")],
        "AIFF": [(300, 1, 8000, name) for name in ("PCM_16", "FLOAT", "ULAW", "IMA_ADPCM", "GSM610")] + [(200, 2, 8000, "PCM_24")],
    }
    found = [_encoded(count, channels, rate, kind, subtype) for count, channels, rate, subtype in made[kind]]
    if kind == "AIFF":
        found += [_encoded(300, 1, 8000, container, "PCM_16") for container in ("AU", "W64", "CAF")]
    return found


def damaged(data: bytes, chance: random.Random, head: float = 0.4, headers: int = 400) -> bytes:
    """A file with some bytes changed, lost, repeated or inserted; `head` is the part of these places within the first `headers` bytes."""
    made = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        size = len(made)
        if size < 8:
            break
        place = chance.randrange(min(size, headers) if chance.random() < head else size)
        match chance.randrange(9):
            case 0 | 1 | 2:
                made[place] = chance.randrange(256)
            case 3:
                made[place] ^= 1 << chance.randrange(8)
            case 4:
                del made[chance.randrange(size // 4, size) :]
            case 5:
                del made[place : place + chance.choice((1, 2, 7, 100, 5000, chance.randrange(1, size)))]
            case 6:
                begin = chance.randrange(size)
                made[place:place] = made[begin : begin + chance.choice((1, 4, 100, 5000, 20_000))]
            case 7:
                end = min(place + chance.choice((2, 4, 8, 100, 5000)), size)
                made[place:end] = bytes([chance.choice((0, 255, 128, 127))]) * (end - place)
            case _:
                number = chance.choice((b"\xff\xff\xff\xff", b"\0\0\0\0", b"\xff\xff\xff\x7f", b"\0\0\0\x80", chance.randbytes(4)))
                made[place : place + 4] = number[: size - place]
    return bytes(made)


def summed(data: bytes) -> bytes:
    """An Ogg file with right checksums, up to the first place where no page is."""
    made, at = bytearray(data), 0
    while at + 27 <= len(made) and made[at : at + 4] == b"OggS":
        head = at + 27 + made[at + 26]
        end = head + sum(made[at + 27 : head])
        if end > len(made):
            break
        made[at + 22 : at + 26] = bytes(4)
        made[at + 22 : at + 26] = struct.pack("<I", checksum(bytes(made[at:end])))
        at = end
    return bytes(made)


def _outcome(work: Any) -> Any:
    """An array, or the error as text."""
    try:
        return work()
    except (ValueError, SampleError) as error:
        return str(error).splitlines()[0]


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, str) or isinstance(other, str):
        return isinstance(one, str) and isinstance(other, str)
    largest = float(np.abs(other[np.isfinite(other)]).max(initial=1))
    return one.shape == other.shape and np.allclose(one, other, atol=2e-6 * largest, rtol=0, equal_nan=True)


def disagreements(data: bytes, chance: random.Random) -> tuple[bool, list[str]]:
    """Whether a file is accepted, and which ways of reading it disagree."""
    found = []
    whole = _outcome(lambda: decode_audio(io.BytesIO(data), _FLOAT)[0])
    refused = isinstance(whole, str)
    library = _outcome(lambda: SoundPart(_FLOAT, 0.0, 50.0, False, 0.0, -1.0).of(_other(io.BytesIO(data), "a file"))[0])
    headless = refused and "there is no data chunk" in whole and not isinstance(library, str) and not len(library)
    if not _equal(whole, library) and not headless:  # libsndfile finds no samples in a WAV file that ends within the size of its data.
        found.append("ours and libsndfile")
    if not _equal(_outcome(lambda: run_operator("decoders.audio", [data])[0]), whole):
        found.append("operator and interpreter")
    for name, options in (("mixed", {"downmix": True}), ("resampled", {"sample_rate": 9000.0})):
        other = _outcome(lambda options=options: run_operator("decoders.audio", [data], **options)[0])
        if isinstance(other, str) != refused and "would be" not in str(other):  # Resampling may have too many samples.
            found.append(name)
    rate = _outcome(lambda: decode_audio(io.BytesIO(data), _FLOAT, duration=0.0)[1])
    rate = 8000 if isinstance(rate, str) else rate
    count = 3000 if refused else len(whole)
    first = chance.randrange(count + 1)
    length = min(count - first, chance.choice((5, 100, count)))

    def part() -> Any:
        return _outcome(lambda: decode_audio(io.BytesIO(data), _FLOAT, offset=(first + 0.5) / rate, duration=(length + 0.5) / rate)[0])

    cut = part()
    if not refused and not _equal(cut, whole[first : first + length]):
        found.append("part and whole")
    if refused and not isinstance(cut, str):
        found.append("part of a refused file")
    library, audio_formats._soundfile = audio_formats._soundfile, lambda: None
    try:
        alone = _outcome(lambda: decode_audio(io.BytesIO(data), _FLOAT)[0])
        alone_part = part()
    finally:
        audio_formats._soundfile = library
    # Without the package, more files are refused, and no other file is accepted.
    if not (isinstance(alone, str) or _equal(alone, whole)) or not (isinstance(alone_part, str) or _equal(alone_part, cut)):
        found.append("with and without soundfile")
    return not refused, found


def file(kind: str, number: int) -> tuple[bytes, random.Random]:
    """A damaged file, and the source of chance for what is done with it."""
    chance = random.Random(f"{kind} {number}")
    data = chance.choice(files(kind))
    metadata = kind == "FLAC" and chance.random() < 0.7
    data = damaged(data, chance, 0.97, 160) if metadata else damaged(data, chance)
    return summed(data) if kind == "SUMS" else data, chance


def main(kind: str, first: int, last: int) -> None:
    """Read files first .. last - 1. One line of JSON for each: [number], then [number, accepted, disagreements]."""
    np.seterr(all="ignore")
    for number in range(first, last):
        print(json.dumps([number]), flush=True)
        print(json.dumps([number, *disagreements(*file(kind, number))]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
