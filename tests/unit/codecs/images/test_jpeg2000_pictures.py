"""JPEG2000: numbers of bits, offsets, palettes, alpha, and what is refused."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from helpers.images import encode, picture
from helpers.operators import run_operator
from PIL import Image

from asyncdali import types
from asyncdali.operators.base import SampleError

RGB, GREY = picture(20, 24), picture(20, 24, 1)


def decode(data: bytes, **arguments) -> np.ndarray:
    return run_operator("decoders.image", [data], **arguments)[0]


def with_bits(values: np.ndarray, bits: int) -> bytes:
    """A lossless file whose values have `bits` bits: one of 8 or 16 bits, with another number in its headers. The decoder adds half of the
    range to what is stored, so the other half is added here."""
    stored = 8 if bits <= 8 else 16
    shifted = values.astype(np.int64) + (1 << stored - 1) - (1 << bits - 1)
    image = shifted.astype(np.uint8 if stored == 8 else np.uint16)
    if image.ndim == 2 or stored == 8:
        data = bytearray(encode(image, "JPEG2000", no_jp2=True))
    else:  # Pillow and OpenCV do not write these.
        coder = pytest.importorskip("imagecodecs")
        data = bytearray(coder.jpeg2k_encode(image, level=0, reversible=True, codecformat="j2k"))
    at = data.index(b"\xff\x4f\xff\x51")
    for k in range(data[at + 41]):
        assert data[at + 42 + 3 * k] == stored - 1
        data[at + 42 + 3 * k] = bits - 1
    return bytes(data[at:])


def boxes(code: bytes, *inner: bytes) -> bytes:
    return box(b"jP  ", b"\r\n\x87\n") + box(b"ftyp", b"jp2 \0\0\0\0jp2 ") + box(b"jp2h", b"".join(inner)) + box(b"jp2c", code)


def box(kind: bytes, contents: bytes) -> bytes:
    return struct.pack(">I4s", 8 + len(contents), kind) + contents


@pytest.mark.parametrize("bits", [1, 2, 4, 7, 8])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_up_to_8_bits_are_scaled_to_the_full_range(bits, channels):
    values = picture(20, 24, channels).astype(np.int64) >> (8 - bits)
    expected = np.floor(values * 255 / ((1 << bits) - 1) + 0.5).reshape(20, 24, channels)
    data = with_bits(values, bits)
    assert np.array_equal(decode(data, output_type=types.ANY_DATA), expected)
    assert np.array_equal(decode(data), np.repeat(expected, 3, 2) if channels == 1 else expected[:, :, :3])


@pytest.mark.parametrize("bits", [9, 10, 12, 14, 15, 16])
@pytest.mark.parametrize("channels", [1, 3])
def test_more_bits_are_scaled_to_the_full_range(bits, channels):
    values = np.random.default_rng(bits).integers(0, 1 << bits, (20, 24) if channels == 1 else (20, 24, 3))
    values.reshape(-1)[:2] = 0, (1 << bits) - 1
    data, full = with_bits(values, bits), (1 << bits) - 1
    expected = np.floor(values * 65535 / full + 0.5).reshape(20, 24, channels)
    assert np.array_equal(decode(data, output_type=types.ANY_DATA, dtype=types.UINT16), expected)
    assert np.abs(decode(data, output_type=types.ANY_DATA) - values.reshape(expected.shape) * 255 / full).max() <= 0.51
    as_float = decode(data, dtype=types.FLOAT)
    assert np.abs(as_float - np.broadcast_to(expected, as_float.shape) / 65535).max() < 1e-4
    grey = decode(data, output_type=types.GRAY, dtype=types.UINT16)
    assert np.abs(grey[:, :, 0] - (expected[:, :, 0] if channels == 1 else expected @ [0.299, 0.587, 0.114])).max() <= 20


def moved(image: np.ndarray, offset: tuple[int, int], **options) -> bytes:
    """A file whose image begins at `offset`. Pillow writes such files in tiles only."""
    return encode(image, "JPEG2000", offset=offset, tile_size=(128, 128), **{"tile_offset": (0, 0), **options})


@pytest.mark.parametrize("offset", [(7, 5), (1, 0), (0, 3), (64, 64)])
def test_offsets(offset):
    for tile_offset in ((0, 0), offset):
        for no_jp2 in (False, True):
            data = moved(RGB, offset, tile_offset=tile_offset, no_jp2=no_jp2)
            assert np.array_equal(decode(data), RGB)
            assert np.array_equal(decode(data, output_type=types.ANY_DATA), RGB)
            part = run_operator("decoders.image_crop", [data], crop=(5, 6), crop_pos_x=0.0, crop_pos_y=1.0)[0]
            assert np.array_equal(part, RGB[15:, :6])
            assert run_operator("peek_image_shape", [data])[0].tolist() == [20, 24, 3]
    grey = decode(moved(GREY, offset), output_type=types.GRAY)
    assert np.array_equal(grey[:, :, 0], GREY)


def test_grey_and_alpha():
    two = picture(20, 24, 2)
    data = encode(Image.fromarray(two, "LA"), "JPEG2000")
    assert np.array_equal(decode(data, output_type=types.ANY_DATA), two)
    assert np.array_equal(decode(data), np.repeat(two[:, :, :1], 3, 2))


@pytest.mark.parametrize("columns", [3, 4])
def test_palettes(columns):
    """OpenCV gives the indices of such files, and no colours."""
    indices = (GREY >> 6).astype(np.uint8)
    colours = np.random.default_rng(3).integers(0, 256, (4, columns), np.uint8)
    head = box(b"ihdr", struct.pack(">IIHBBBB", 20, 24, 1, 7, 7, 0, 0)) + box(b"colr", struct.pack(">BBBI", 1, 0, 0, 16))
    palette = box(b"pclr", struct.pack(">HB", 4, columns) + bytes([7] * columns) + colours.tobytes())
    mapping = box(b"cmap", b"".join(struct.pack(">HBB", 0, 1, k) for k in range(columns)))
    data = boxes(encode(indices, "JPEG2000", no_jp2=True), head, palette, mapping)
    assert np.array_equal(decode(data), colours[indices][:, :, :3])
    assert np.array_equal(decode(data, output_type=types.ANY_DATA), colours[indices])
    assert run_operator("peek_image_shape", [data], image_type=types.ANY_DATA)[0].tolist() == [20, 24, columns]


def test_a_last_box_without_a_length():
    data = bytearray(encode(RGB, "JPEG2000"))
    at = data.index(b"jp2c")
    data[at - 4 : at] = bytes(4)
    assert np.array_equal(decode(bytes(data)), RGB)


def changed(data: bytes, at: int, value: int) -> bytes:
    start = data.index(b"\xff\x4f\xff\x51") + at
    return data[:start] + bytes([value]) + data[start + 1 :]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (changed(encode(GREY, "JPEG2000"), 42, 0x87), "signed"),
        (changed(encode(GREY, "JPEG2000"), 42, 19), "20 bits"),
        (changed(encode(RGB, "JPEG2000"), 45, 11), "8/12/8 bits"),
        (encode(RGB, "JPEG2000")[:200], "broken JPEG2000"),
        (moved(RGB, (3, 3))[:200], "broken JPEG2000"),
        (changed(encode(RGB, "JPEG2000"), 43, 0), "JPEG2000"),
    ],
)
def test_what_is_refused(data, words):
    with pytest.raises(SampleError, match=words):
        decode(data)


def test_pillows_limit_of_pixels_does_not_apply(monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)
    assert np.array_equal(decode(moved(RGB, (3, 3))), RGB)


@pytest.mark.parametrize("size", [(65535, 65535), (20, 25), (1 << 30, 1)])
def test_sizes_in_two_headers_must_be_equal(size):
    """Pillow takes memory for the size in the box ihdr: 4 GB for a file of 2 KB."""
    data = encode(Image.fromarray(picture(20, 24, 2), "LA"), "JPEG2000")
    at = data.index(b"ihdr") + 4
    with pytest.raises(SampleError, match="another one"):
        decode(data[:at] + struct.pack(">II", *size) + data[at + 8 :])
