"""JPEGs with invalid tables do not reach the decoders of a GPU, which do not check tables."""

from __future__ import annotations

import io
import mmap

import numpy as np
import pytest
from PIL import Image

from asyncdali.codecs.jpeg import jpeg_kernels
from asyncdali.codecs.jpeg.jpeg_tables import ELIGIBLE, JPEG_HEADER, JPEG_SPLIT
from asyncdali.compiled.addresses import address_of
from asyncdali.operators.decode import image_decoder_kernels


def encoded(mode="RGB", **options) -> np.ndarray:
    rng = np.random.default_rng(1)
    small = Image.fromarray(rng.integers(0, 255, (9, 9, 3), np.uint8)).convert(mode)
    out = io.BytesIO()
    small.resize((90, 100)).save(out, "JPEG", **options)
    return np.frombuffer(out.getvalue(), np.uint8).copy()


def is_taken(data: np.ndarray) -> bool:
    """Whether a file may go to the decoders of a GPU. The file ends where readable memory ends."""
    room = mmap.mmap(-1, -(-max(len(data), 1) // mmap.PAGESIZE) * mmap.PAGESIZE)
    memory = np.frombuffer(room, np.uint8)[-len(data) :]
    memory[:] = data
    addresses, sizes = np.array([memory.ctypes.data], np.int64), np.array([len(data)], np.int64)
    headers, taken = JPEG_HEADER.zeros(1), np.full(1, 7, np.int64)
    jpeg_kernels.scan_headers(address_of(addresses), address_of(sizes), 1, address_of(headers))
    given = {"addresses": addresses, "sizes": sizes, "headers": headers, "samples": 1, "marks": taken}
    table, _ = JPEG_SPLIT.make(**{name: given.get(name, 0) for name in JPEG_SPLIT.word._fields[: JPEG_SPLIT.words]})
    assert ELIGIBLE * image_decoder_kernels.find_eligible(address_of(table)) == taken[0]
    scanned = JPEG_HEADER.ones(1)
    marks = image_decoder_kernels.scan_file_for_gpu(memory.ctypes.data, len(data), address_of(scanned))
    assert np.array_equal(scanned, headers)
    assert marks & ELIGIBLE == taken[0]
    return bool(taken[0])


@pytest.fixture(scope="module", autouse=True)
def compiled():
    jpeg_kernels.scan_headers.compile()
    image_decoder_kernels.find_eligible.compile()
    image_decoder_kernels.scan_file_for_gpu.compile()


def segments(data: np.ndarray) -> list[tuple[int, int, int]]:
    """(marker, begin, size) of the segments before the entropy-coded data. The last segment is the header of the scan."""
    found, at = [], 2
    while not found or found[-1][0] != 0xDA:
        size = 2 + int(data[at + 2]) * 256 + int(data[at + 3])
        found.append((int(data[at + 1]), at, size))
        at += size
    return found


def begin_of(data: np.ndarray, marker: int, number: int = 0) -> int:
    return [begin for found, begin, _ in segments(data) if found == marker][number]


@pytest.mark.parametrize("options", [
    {}, {"subsampling": 0}, {"subsampling": 1}, {"optimize": True}, {"quality": 1}, {"quality": 100}, {"comment": b"x" * 300},
    {"exif": b"Exif\0\0" + b"MM\0*\0\0\0\x08\0\0"}, {"restart_marker_blocks": 4}, {"dpi": (72, 72)}, {"icc_profile": b"p" * 70000},
])  # fmt: skip
def test_valid_files_are_accepted(options):
    assert is_taken(encoded(**options))


def test_a_fill_byte():
    data = encoded()
    assert is_taken(np.insert(data, begin_of(data, 0xC4), 0xFF))


def test_valid_files_that_only_the_cpu_decodes():
    assert not is_taken(encoded(progressive=True)) and not is_taken(encoded("L")) and not is_taken(encoded("CMYK"))


DEFECTS = {
    "number of a quantisation table": (0xDB, 4, 4),
    "16-bit quantisation": (0xDB, 4, 0x10),
    "a factor of zero": (0xDB, 20, 0),
    "number of a Huffman table": (0xC4, 4, 2),
    "kind of a Huffman table": (0xC4, 4, 0x20),
    "more codes of one bit than there are": (0xC4, 5, 3),
    "more codes than symbols": (0xC4, 20, 9),
    "a code of ones only": (0xC4, 6, 3),
    "bits of a difference": (0xC4, 23, 12),
    "12 bits": (0xC0, 4, 12),
    "table of a component": (0xC0, 12, 3),
    "a component that the scan names otherwise": (0xDA, 5, 9),
    "a Huffman table that is not there": (0xDA, 6, 0x02),
    "components of a scan": (0xDA, 4, 2),
    "first coefficient of a scan": (0xDA, 11, 1),
    "bits of a scan": (0xDA, 13, 1),
    "length of a segment": (0xDB, 3, 66),
    "length of the scan's header": (0xDA, 3, 13),
    "an unknown marker": (0xE0, 1, 0xF5),
    "no marker": (0xDB, 0, 0xFE),
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_files_with_invalid_tables_are_refused(defect):
    marker, place, value = DEFECTS[defect]
    data = encoded()
    begin = begin_of(data, marker)
    assert data[begin + place] != value
    data[begin + place] = value
    assert not is_taken(data)


def test_symbols_of_coefficients():
    data = encoded()
    symbols = begin_of(data, 0xC4, 1) + 21
    assert data[symbols - 17] >> 4 == 1
    for value, sound in ((0x00, True), (0xF0, True), (0xFA, True), (0x10, False), (0x0B, False), (0xFF, False)):
        data[symbols] = value
        assert is_taken(data) == sound


@pytest.mark.parametrize("marker", [0xDB, 0xC4, 0xC0])
def test_missing_and_repeated_segments(marker):
    data = encoded()
    begin, size = next((begin, size) for found, begin, size in segments(data) if found == marker)
    assert not is_taken(np.delete(data, slice(begin, begin + size)))
    twice = np.insert(data, begin, data[begin : begin + size])
    assert is_taken(twice) == (marker != 0xC0)  # a table may be defined twice


def test_headers_that_end_early():
    data = encoded()
    end = sum(segments(data)[-1][1:])
    for size in range(end):
        assert not is_taken(np.append(data[:size], np.array([0xFF, 0xD9], np.uint8)))


def test_random_bytes_are_checked_without_access_to_other_memory():
    rng = np.random.default_rng(2)
    data = encoded()
    end = sum(segments(data)[-1][1:])
    taken = 0
    for _ in range(3000):
        other = data.copy()
        other[rng.integers(2, end, rng.integers(1, 4))] = rng.integers(0, 256)
        taken += is_taken(other[: rng.integers(end, len(data))] if rng.random() < 0.2 else other)
    assert 300 < taken < 2700
