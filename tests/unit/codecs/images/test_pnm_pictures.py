"""PBM, PGM and PPM: binary and text, comments, largest values, damage; and files of other kinds."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.images import encode, picture
from helpers.operators import run_operator
from PIL import Image

from asyncdali import types
from asyncdali.operators.base import SampleError

RGB, GREY = picture(7, 11), picture(7, 11, 1)
WIDE = np.random.default_rng(2).integers(0, 65536, (7, 11)).astype(np.uint16)
BITS = GREY > 128


def decode(data: bytes, **arguments) -> np.ndarray:
    return run_operator("decoders.image", [data], **arguments)[0]


def grey(data: bytes, dtype=types.UINT8) -> np.ndarray:
    return decode(data, output_type=types.GRAY, dtype=dtype)[:, :, 0]


def text(values: np.ndarray) -> bytes:
    return " ".join(map(str, values.reshape(-1))).encode()


@pytest.mark.parametrize("largest", [1, 2, 15, 100, 254, 255])
@pytest.mark.parametrize("kind", [2, 3, 5, 6])
def test_values_up_to_255_are_scaled_to_the_full_range(largest, kind):
    values = (RGB if kind in (3, 6) else GREY).astype(np.int64) * largest // 255
    pixels = values.astype(np.uint8).tobytes() if kind > 3 else text(values)
    found = decode(f"P{kind} 11 7 {largest}\n".encode() + pixels, output_type=types.ANY_DATA)
    assert np.array_equal(found.reshape(values.shape), np.floor(values * 255 / largest + 0.5))


@pytest.mark.parametrize("largest", [256, 511, 1023, 4095, 16383, 40000, 65535])
@pytest.mark.parametrize("kind", [2, 5])
def test_larger_values_are_scaled_to_the_full_range(largest, kind):
    values = WIDE.astype(np.int64) * largest // 65535
    data = f"P{kind}\n11 7\n{largest}\n".encode() + (values.astype(">u2").tobytes() if kind == 5 else text(values))
    assert np.array_equal(grey(data, types.UINT16), np.floor(values * 65535 / largest + 0.5))
    assert np.abs(grey(data) - values * 255 / largest).max() <= 0.51
    assert np.abs(grey(data, types.FLOAT) - values / largest).max() < 1e-4


@pytest.mark.parametrize(
    "data",
    [
        b"P5 11 7 255\n" + GREY.tobytes(),
        b"P5\r\n11 7\r\n255\r\n" + GREY.tobytes(),
        b"P5# made by hand\n11#wide\n7\n# high\n255\n" + GREY.tobytes(),
        b"P5\n11 7\n255#the end\n" + GREY.tobytes(),
        b"P5\t11\f7\v255 " + GREY.tobytes(),
        b"P5 11 7 255\n" + GREY.tobytes() + b"P5 1 1 255 x",
        b"P2 11 7 255\n" + text(GREY),
        b"P2 11 7 255\n" + text(GREY) + b"\n",
        b"P2 11 7 255\n# pixels\n" + text(GREY).replace(b" ", b"#x 7 y\n", 3),
        b"P2 11 7 255\n" + text(GREY) + b"\nP2 1 1 255 5",
        b"P5#a\r11 7 255\r" + GREY.tobytes(),
        b"P2 011 0007 00255 " + text(GREY),
    ],
)
def test_spellings(data):
    assert np.array_equal(grey(data), GREY)
    assert run_operator("peek_image_shape", [data], image_type=types.ANY_DATA)[0].tolist() == [7, 11, 1]


def test_a_pixel_that_is_half_an_end_of_line():
    pixels = np.full((7, 11), 10, np.uint8)
    assert np.array_equal(grey(b"P5 11 7 255\r" + pixels.tobytes()), pixels)


def test_bitmaps():
    expected = np.where(BITS, 0, 255)
    rows = "\n".join("".join(map(str, row)) for row in BITS.astype(int)).encode()
    for data in (
        b"P4\n11 7\n" + np.packbits(BITS, axis=1).tobytes(),
        b"P1 11 7\n" + rows,
        b"P1 11 7 " + text(BITS.astype(int)),
        b"P1 11 7\n" + rows + b"\n",
    ):
        assert np.array_equal(grey(data), expected)


def test_values_above_the_largest():
    assert grey(b"P5 2 1 9\n\x09\xff").tolist() == [[255, 255]]
    with pytest.raises(SampleError, match="a value is 10, and the largest is 9"):
        grey(b"P2 2 1 9\n1 10")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"P5 11 7 255\n" + GREY.tobytes()[:-1], "truncated"),
        (b"P2 11 7 255\n" + text(GREY)[:-3], "truncated: 76 of 77"),
        (b"P5 3 3 0\n" + bytes(9), "allowed are 1"),
        (b"P5 3 3 65536\n" + bytes(18), "allowed are 1"),
        (b"P2 3 1 255\n1 x 3 4", "between the numbers"),
        (b"P2 3 1 255\n1 -2 3", "between"),
        (b"P1 3 1\n1 2 1 1", "between"),
        (b"P5 0 3 255\n", "at least 1"),
        (b"P5 3 three 255\n", "a number is missing"),
        (b"P6 3", "a number is missing"),
        (b"P2 3 1 255\n1 2 1234567890", "10 digits"),
        (b"P1 3 1\n10 ", "truncated"),
        (b"P5 # no end", "a number is missing"),
        (b"P3 1 1 255\n1 2", "takes? at least|truncated"),
    ],
)
def test_errors(data, words):
    with pytest.raises(SampleError, match=words):
        grey(data)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (encode(Image.fromarray(RGB), "GIF"), "GIF"),
        (b"P7\nWIDTH 3\n", "PAM"),
        (b"Pf\n3 3\n-1.0\n", "PFM"),
        (b"\0\0\0\x20ftypavif", "AVIF"),
        (b"\0\0\0\x18ftypheic", "HEIC"),
        (b"\xef\xbb\xbf<!DOCTYPE html>", "HTML"),
        (b"\n <html>", "HTML"),
        (b"8BPS\0\1", "Photoshop"),
        (b"\x1f\x8b\x08", "gzip"),
        (b"\0\0\0\x20ftypisom", "MP4"),
        (b"\xff\x0a\x00", "JPEG XL"),
        (b"RIFF\0\0\0\0WAVE", "RIFF"),
    ],
)
def test_files_of_other_kinds_are_named(data, kind):
    for operator in ("decoders.image", "peek_image_shape"):
        with pytest.raises(SampleError, match=f"format .{kind}.*: b"):
            run_operator(operator, [data])
