"""The segments of a JPEG that decoders read: Adobe's, EXIF's, sizes. Segments may lie anywhere, and have any length."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from helpers.images import encode, jpeg_blocks, picture, segment, with_orientation
from helpers.operators import run_operator
from PIL import Image

from asyncdali import types
from asyncdali.codecs.image_headers import tiff_orientation
from asyncdali.codecs.jpeg import jpeg_kernels
from asyncdali.codecs.jpeg.jpeg_tables import JPEG_HEADER, MOST_SIDE
from asyncdali.operators.base import SampleError
from asyncdali.readers.video.frame_files import decode_frame

RGB = picture(24, 33)
CMYK = encode(Image.fromarray(RGB).convert("CMYK"), "JPEG", quality=100)
FAR = b"".join(segment(0xE2, b"ICC_PROFILE\0" + bytes([k + 1, 3]) + bytes(60_000)) for k in range(3))
"""More than 64 KB of other segments."""


def decode(data: bytes, **arguments) -> np.ndarray:
    return run_operator("decoders.image", [data], **arguments)[0]


def with_adobe(data: bytes, change) -> bytes:
    """A JPEG whose Adobe segment is changed."""
    at = data.index(b"\xff\xee")
    (length,) = struct.unpack_from(">H", data, at + 2)
    return data[:at] + change(data[at : at + 2 + length]) + data[at + 2 + length :]


@pytest.mark.parametrize("coding", ["cmyk", "ycck"])
@pytest.mark.parametrize("operator", [("image", {}), ("image_crop", {"crop": (9, 12)}), ("image", {"output_type": types.GRAY})])
def test_cmyk_is_inverted_wherever_the_adobe_segment_is(coding, operator):
    data = CMYK if coding == "cmyk" else jpeg_blocks(33, 24, [(1, 1)] * 4, adobe=2)
    name, arguments = operator
    read = lambda data: run_operator(f"decoders.{name}", [data], **arguments)[0]  # noqa: E731
    expected = read(data)
    longer = lambda old: segment(0xEE, old[4:] + b"more data of an encoder")  # noqa: E731
    for place, changed in {
        "behind 180 KB": with_adobe(data, lambda old: FAR + old),
        "long": with_adobe(data, longer),
        "fill bytes": with_adobe(data, lambda old: b"\xff\xff\xff" + old),
        "behind another APP14": with_adobe(data, lambda old: segment(0xEE, b"Other\0" + bytes(30)) + old),
    }.items():
        assert np.array_equal(read(changed), expected), place
    if coding == "cmyk":
        assert np.abs(decode(with_adobe(data, longer)).astype(int) - RGB).mean() < 3
        for none in (b"", segment(0xEE, b"Adobe"), segment(0xEE, b"Adobf" + bytes(7))):
            assert not np.array_equal(read(with_adobe(data, lambda old, none=none: none)), expected)


def test_the_name_adobe_in_other_data_is_no_adobe_segment():
    data = with_adobe(CMYK, lambda old: segment(0xEC, b"x\xff\xee\0\x0eAdobe\0\x64\0\0\0\0\0"))
    assert np.array_equal(decode(data), decode(with_adobe(CMYK, lambda old: b"")))


# --- orientation


def block(value: int, kind: int, order: str, count: int = 1) -> bytes:
    """A TIFF block with an orientation of TIFF type `kind`."""
    size = {1: "Bxxx", 6: "bxxx", 3: "Hxx", 8: "hxx", 4: "I", 9: "i", 2: "Bxxx", 5: "I"}[kind]
    start = b"II*\0" if order == "<" else b"MM\0*"
    return start + struct.pack(order + "IHHHI", 8, 1, 0x0112, kind, count) + struct.pack(order + size, value) + bytes(4)


def in_jpeg(tiff: bytes) -> int:
    """The orientation that a JPEG's header gives."""
    data = encode(RGB, "JPEG")
    array = np.frombuffer(data[:2] + segment(0xE1, b"Exif\0\0" + tiff) + data[2:], np.uint8)
    header = jpeg_kernels.read_headers(np.array([array.ctypes.data]), np.array([array.size]))[0][0]
    return int(header[JPEG_HEADER.word.orientation])


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("kind", [1, 3, 4, 6, 8, 9])
def test_orientations_of_every_integer_type(kind, order):
    for value in range(10):
        expected = value if 1 <= value <= 8 else 1
        assert in_jpeg(block(value, kind, order)) == tiff_orientation(block(value, kind, order)) == expected


@pytest.mark.parametrize("order", ["<", ">"])
def test_broken_orientations_are_upright(order):
    good = block(6, 3, order)
    broken = [block(6, 2, order), block(6, 5, order), block(6, 3, order, 0), block(6, 3, order, 2), b"XX" + good[2:]]
    for tiff in [*broken, good[:2] + b"++" + good[4:], good[:17], good[:4] + b"\xff" * 4 + good[8:]]:
        assert in_jpeg(tiff) == tiff_orientation(tiff) == 1


def test_damaged_exif_blocks_have_one_orientation_in_every_format():
    rng = np.random.default_rng(3)
    good = [block(value, kind, order) for value in (6, 8) for kind in (1, 3, 4) for order in "<>"]
    for turn in range(3000):
        tiff = bytearray(good[turn % len(good)])
        for _ in range(int(rng.integers(1, 4))):
            tiff[rng.integers(len(tiff))] = int(rng.choice([0, 1, 3, 4, 8, 0x12, 0x49, 0x4D, 255, int(rng.integers(256))]))
        assert in_jpeg(bytes(tiff)) == tiff_orientation(bytes(tiff)), bytes(tiff).hex()


def test_the_first_exif_segment_counts():
    """As in viewers. DALI takes the last one."""
    plain = encode(RGB, "JPEG")
    for first, second, turned in ((1, 6, False), (6, 1, True), (6, 8, True), (9, 6, False)):
        segments = segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0<x/>") + segment(0xE1, b"Exif\0\0" + block(first, 3, "<"))
        data = plain[:2] + segments + segment(0xE1, b"Exif\0\0" + block(second, 3, ">")) + plain[2:]
        assert np.array_equal(decode(data), np.rot90(decode(plain), -1) if turned else decode(plain))


# --- sizes


def with_size(width: int, height: int, restart: int = 0) -> bytes:
    return jpeg_blocks(width, height, [(1, 1)], restart=restart)


@pytest.mark.parametrize("operator", ["image", "image_crop", "image_slice", "image_random_crop"])
@pytest.mark.parametrize("size", [(MOST_SIDE + 1, 8), (8, MOST_SIDE + 1), (65535, 8)])
def test_sides_beyond_those_of_libjpeg_are_refused_by_every_decoder(operator, size, monkeypatch):
    """Our decoder took up to 65,535 pixels, libjpeg-turbo and DALI take 65,500. Which decoder runs depends on a cache."""
    arguments = {"image_crop": {"crop": (4, 4)}, "image_slice": {"rel_start": (0.0, 0.0), "rel_end": (0.5, 0.1)}}.get(operator, {})
    whole = with_size(*size)
    for data in (whole, whole[: len(whole) // 2]):
        for decoder in ("own", "turbo"):
            monkeypatch.setenv("ASYNCDALI_JPEG", decoder)
            for dtype in (types.UINT8, types.FLOAT):
                with pytest.raises(SampleError, match="at most 65500"):
                    run_operator(f"decoders.{operator}", [data], dtype=dtype, **arguments)


def test_the_longest_side_is_decoded(monkeypatch):
    data = with_size(MOST_SIDE, 8)
    own = decode(data)
    monkeypatch.setenv("ASYNCDALI_JPEG", "turbo")
    assert own.shape == (8, MOST_SIDE, 3) and np.array_equal(own, decode(data))


@pytest.mark.parametrize("orientation", [6, 8])
def test_mixed_batches(orientation):
    """Files of all kinds in one batch have their own headers."""
    files = [encode(RGB, "JPEG"), CMYK, with_orientation(encode(RGB, "JPEG"), orientation), with_adobe(CMYK, lambda old: FAR + old)]
    found = run_operator("decoders.image", files)
    for data, image in zip(files, found, strict=True):
        assert np.array_equal(image, decode(data))
    assert np.array_equal(found[1], found[3])


@pytest.mark.parametrize("decoder", ["own", "turbo"])
def test_windows_of_truncated_files(decoder, monkeypatch):
    """As in DALI, a window needs the rows down to its last one. Which decoder runs makes no difference."""
    monkeypatch.setenv("ASYNCDALI_JPEG", decoder)
    whole = encode(picture(160, 120), "JPEG")
    data = whole[: len(whole) * 2 // 3]
    with pytest.raises(SampleError, match="truncated"):
        decode(data)
    top = {"crop": (32, 120), "crop_pos_y": 0.0}
    for operator, window in [("image_crop", top), ("image_slice", {"rel_start": (0.0, 0.0), "rel_end": (1.0, 0.2)})]:
        found = run_operator(f"decoders.{operator}", [data], **window)[0]
        assert np.array_equal(found, decode(whole)[:32])
    for operator, window in [("image_crop", {**top, "crop_pos_y": 1.0}), ("image_slice", {"rel_start": (0.0, 0.5), "rel_end": (1.0, 1.0)})]:
        with pytest.raises(SampleError, match="truncated"):
            run_operator(f"decoders.{operator}", [data], **window)


@pytest.mark.parametrize("image_type", [types.RGB, types.GRAY, types.BGR])
def test_frames_of_sequences_are_decoded_by_the_same_rules(image_type):
    """OpenCV decoded them: it takes every CMYK file for inverted, and fills truncated ones with grey."""
    good = [encode(RGB, "JPEG"), CMYK, with_adobe(CMYK, lambda old: FAR + old), with_adobe(CMYK, lambda old: b"")]
    good += [with_orientation(encode(RGB, "JPEG"), 6), encode(picture(24, 33, 1), "JPEG"), encode(RGB, "JPEG", progressive=True)]
    for data in good:
        assert np.array_equal(decode_frame(np.frombuffer(data, np.uint8), image_type), decode(data, output_type=image_type))
    long = encode(picture(200, 200), "JPEG")
    for data in (long[: len(long) // 2] + b"\xff\xd9"[:1], with_size(MOST_SIDE + 1, 8), jpeg_blocks(20, 20, [(1, 1)] * 2)):
        with pytest.raises(ValueError) as caught:
            decode_frame(np.frombuffer(data, np.uint8), image_type)
        with pytest.raises(SampleError) as whole:
            decode(data, output_type=image_type)
        assert str(whole.value) == str(caught.value)
