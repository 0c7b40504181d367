"""Files of many encoders: our JPEG decoder gives libjpeg-turbo's pixels, and hands over files for known reasons only."""

from __future__ import annotations

import os
from collections import Counter

import numpy as np
import pytest
from helpers.jpeg_encoders import draw_picture, encoders
from helpers.jpegs import Decoders

_USUAL = ([0x11], [0x11] * 3, [0x21, 0x11, 0x11], [0x22, 0x11, 0x11], [0x12, 0x11, 0x11])


def reason_to_hand_over(data: bytes) -> str:
    """The reason in a file's segments why libjpeg-turbo must decode it; "" if our decoder can."""
    at, jfif, adobe = 2, False, None
    frame, marker, names = b"", 0, b""
    while True:
        while data[at : at + 2] == b"\xff\xff":
            at += 1
        kind, length = data[at + 1], int.from_bytes(data[at + 2 : at + 4], "big")
        body = data[at + 4 : at + 2 + length]
        jfif |= kind == 0xE0 and body[:5] == b"JFIF\0"
        adobe = body[11] if kind == 0xEE and body[:5] == b"Adobe" and len(body) >= 12 else adobe
        if 0xC0 <= kind <= 0xCF and kind not in (0xC4, 0xC8, 0xCC):
            marker, frame, names = kind, body, body[6::3]
        if kind == 0xDA:
            break
        at += 2 + length
    if marker not in (0xC0, 0xC1, 0xC2):
        return "arithmetic coding" if marker in (0xC9, 0xCA) else "another process"
    if len(names) not in (1, 3):
        return "four components"
    if len(names) == 3 and list(frame[7::3]) not in _USUAL:
        return "unusual sampling"
    if len(names) == 3 and not jfif and (adobe == 0 or (adobe is None and names[:3] == b"RGB")):
        return "RGB"
    if len(names) == 3 and not jfif and adobe is None and names[0] == 0x52:
        return "RGB"
    if marker != 0xC2 and body[0] != len(names):
        return "a scan for each component"
    if frame[7] >> 4 == 2 and len(names) == 3 and int.from_bytes(frame[3:5], "big") <= 4:
        return "at most four columns"
    return ""


def compare(count: int, seed: int = 0) -> Counter[tuple[str, str]]:
    """Compare `count` files. Returns counts by encoder and outcome: "decoded", "refused by the encoder" or a reason to hand over."""
    found: Counter[tuple[str, str]] = Counter()
    rng, decoders, known = np.random.default_rng(seed), Decoders(), encoders()
    slow = {"guetzli": 100}
    for name, encoder in known.items():
        for number in range(min(-(-count // len(known)), slow.get(name, count))):
            data = encoder(draw_picture(rng), rng)
            if data is None:
                found[name, "refused by the encoder"] += 1
                continue
            reason = reason_to_hand_over(data)
            _, width, height, components = (int(value) for value in decoders.header(data)[:4])
            place = None
            if rng.random() < 0.5:
                x, y = int(rng.integers(width)), int(rng.integers(height))
                place = (x, y, int(rng.integers(1, width - x + 1)), int(rng.integers(1, height - y + 1)))
            channels = 1 if rng.random() < 0.1 else 3
            image = decoders.ours(data, place, channels) if components in (1, 3) else None
            where = f"file {number} of {name}, {width}x{height}, {components} components, window {place}, {channels} channels"
            assert (image is None) == bool(reason), f"{where}: {'handed over' if image is None else 'decoded'}, but {reason or 'ours'}"
            found[name, reason or "decoded"] += 1
            if image is not None:
                expected = decoders.turbos(data, place, channels)
                assert expected is not None, f"{where}: libjpeg-turbo refuses it"
                assert np.array_equal(image, expected), f"{where}: {np.count_nonzero(image != expected)} values differ"
    return found


def test_a_few_files_of_each_encoder():
    found = compare(150)
    assert {name for name, what in found if what == "decoded"} == set(encoders())


@pytest.mark.slow
def test_files_of_each_encoder():
    """The environment variable ASYNCDALI_JPEG_FILES is the number of files (24,000). benchmarks/results/jpeg-decoders.md has the table."""
    found = compare(int(os.environ.get("ASYNCDALI_JPEG_FILES", "24000")), seed=1)
    for name in encoders():
        print(f"{name:34}", ", ".join(f"{what}: {number:,}" for (of, what), number in found.items() if of == name))
    assert sum(number for (_, what), number in found.items() if what == "decoded") > 0
