"""Mutated JPEGs: our decoder gives libjpeg-turbo's pixels or hands the file over, and touches only its own memory.

Files, pixels and work area end at guard pages, so an access outside ends the process.
"""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from helpers.images import encode, encode_cv, jpeg_blocks, picture
from helpers.jpegs import Decoders

from asyncdali.codecs.jpeg import block_positions as positions
from asyncdali.codecs.jpeg import jpeg_kernels as kernels
from asyncdali.codecs.jpeg.jpeg_tables import JPEG_HEADER
from asyncdali.operators.row_feeds import BAND

_LARGEST = 1 << 18
"""Largest number of pixels of a mutated file that is decoded. Larger files only take time."""


def seeds(sampling: str) -> list[bytes]:
    """Small files of one sampling: smooth, noisy, with restart markers, with custom tables, progressive."""
    if sampling == "grey":
        blocks, grey = [(1, 1)], picture(40, 51, 1)
        files = [encode(grey, "JPEG", quality=q, optimize=q == 60) for q in (30, 60, 95)]
        files += [encode_cv(grey, ".jpg", [cv2.IMWRITE_JPEG_RST_INTERVAL, 2])]
        files += [encode(grey, "JPEG", progressive=True)]
    else:
        rgb = picture(40, 51)
        factor = getattr(cv2, f"IMWRITE_JPEG_SAMPLING_FACTOR_{sampling}")
        blocks = [{"444": (1, 1), "422": (2, 1), "420": (2, 2), "440": (1, 2)}[sampling], (1, 1), (1, 1)]
        files = []
        for more in ([cv2.IMWRITE_JPEG_OPTIMIZE, 1], [cv2.IMWRITE_JPEG_RST_INTERVAL, 2], [cv2.IMWRITE_JPEG_PROGRESSIVE, 1], []):
            for quality in (40, 97):
                files.append(encode_cv(rgb, ".jpg", [cv2.IMWRITE_JPEG_SAMPLING_FACTOR, factor, cv2.IMWRITE_JPEG_QUALITY, quality, *more]))
    return [*files, jpeg_blocks(37, 29, blocks), jpeg_blocks(33, 21, blocks, restart=3)]


def mutated(data: bytes, rng: np.random.Generator) -> bytes:
    """Damage in the headers or the entropy-coded data."""
    out = bytearray(data)
    scan = data.index(b"\xff\xda")
    kind = rng.integers(8)
    if kind <= 1:  # bits of the data
        for _ in range(int(rng.integers(1, 4))):
            out[rng.integers(scan, len(out))] ^= 1 << int(rng.integers(8))
    elif kind == 2:  # bytes of the data
        for _ in range(int(rng.integers(1, 6))):
            out[rng.integers(scan, len(out))] = int(rng.choice([0, 0xFF, 0xD0, 0xD9, int(rng.integers(256))]))
    elif kind == 3:  # a header
        for _ in range(int(rng.integers(1, 4))):
            out[rng.integers(2, scan + 14)] = int(rng.integers(256))
    elif kind == 4:  # a bit of a header
        out[rng.integers(2, scan + 14)] ^= 1 << int(rng.integers(8))
    elif kind == 5:
        del out[int(rng.integers(scan, len(out))) :]
    elif kind == 6:  # a piece taken out or doubled
        a, b = sorted(int(v) for v in rng.integers(scan, len(data), 2))
        out = bytearray(data[:a] + data[b:] if rng.random() < 0.5 else data[:b] + data[a:])
    else:  # a marker
        at = int(rng.integers(scan, len(out)))
        out[at:at] = bytes([0xFF, int(rng.choice([*range(0xD0, 0xDA), 0xC4, 0xDA, 0xFE, 0xFF, 1]))])
    return bytes(out)


def fuzz(sampling: str, count: int, seed: int) -> tuple[int, int]:
    """(files decoded by our decoder, files left to libjpeg-turbo) of `count` mutated files. Asserts that decoded pixels equal
    libjpeg-turbo's."""
    rng, files, decoders = np.random.default_rng(seed), seeds(sampling), Decoders()
    index = positions.index(10_000_000).ctypes.data
    decoded = over = 0
    for k in range(count):
        data = mutated(files[rng.integers(len(files))], rng)
        header = decoders.header(data)
        found, width, height, components = (int(value) for value in header[JPEG_HEADER.span("found", "components")])
        if found != kernels.IS_JPEG or components not in (1, 3) or not 0 < width * height <= _LARGEST:
            continue
        place = None
        if rng.random() < 0.5:
            x, y = int(rng.integers(width)), int(rng.integers(height))
            place = (x, y, int(rng.integers(1, width - x + 1)), int(rng.integers(1, height - y + 1)))
        channels = 1 if rng.random() < 0.2 else 3
        if rng.random() < 0.3:  # as in a second epoch, with block positions that the first epoch noted
            data += bytes(positions.SMALLEST_FILE)
            decoders.ours(data, (width // 2, height // 2, 1, 1), index=index)
        ring = int(rng.integers(BAND, 40)) if rng.random() < 0.2 else 0  # a reader takes the rows from a ring while they are decoded
        image = decoders.ours(data, place, channels, index=index, ring=ring)
        if image is None:
            over += 1
            continue
        decoded += 1
        expected = decoders.turbos(data, place, channels)
        assert expected is not None, (sampling, seed, k)
        assert np.array_equal(image, expected), (sampling, seed, k)
    return decoded, over


SAMPLINGS = ["420", "444", "422", "440", "grey"]


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_mutated_files_quick(sampling):
    decoded, over = fuzz(sampling, 1500, 1)
    assert decoded > 100 and over > 100


@pytest.mark.slow
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_mutated_files(sampling):
    decoded, over = fuzz(sampling, 100_000, 2)
    assert decoded > 10_000 and over > 10_000


def fuzz_cuts(sampling: str, count: int, seed: int) -> tuple[int, int]:
    """(equal, refused) outcomes of `count` mutated files with both decoders. A window that an operator cuts out of a whole picture is
    refused if and only if the whole picture is, and has its pixels."""
    rng, files, decoders = np.random.default_rng(seed), seeds(sampling), Decoders()
    equal = refused = 0
    for k in range(count):
        data = mutated(files[rng.integers(len(files))], rng)
        found, width, height, components = (int(value) for value in decoders.header(data)[JPEG_HEADER.span("found", "components")])
        if found != kernels.IS_JPEG or components not in (1, 3) or not 0 < width * height <= _LARGEST:
            continue
        x, y = int(rng.integers(width)), int(rng.integers(height))
        w, h = int(rng.integers(1, width - x + 1)), int(rng.integers(1, height - y + 1))
        for own in (True, False):
            whole, part = decoders.step(data, own=own), decoders.step(data, (x, y, w, h), own=own, cut=True)
            assert (part is None) == (whole is None), (sampling, seed, k, own)
            if part is None:
                refused += 1
                continue
            equal += 1
            assert np.array_equal(part, whole[y : y + h, x : x + w]), (sampling, seed, k, own)
    return equal, refused


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_cuts_of_mutated_files_quick(sampling):
    equal, refused = fuzz_cuts(sampling, 300, 3)
    assert equal > 200 and refused > 20


@pytest.mark.slow
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_cuts_of_mutated_files(sampling):
    equal, refused = fuzz_cuts(sampling, 20_000, 4)
    assert equal > 10_000 and refused > 1000
