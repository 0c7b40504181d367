"""The JPEG kernels: the header scan, windows of images, memory bounds, and the fallback without libjpeg-turbo."""

from __future__ import annotations

import base64
import io
import warnings

import cv2
import numpy as np
import pytest
from helpers.images import encode, encode_cv, jpeg_blocks, picture, segment, with_orientation
from helpers.operators import PerSample, run_operator
from PIL import Image

from asyncdali import types
from asyncdali.codecs.jpeg import jpeg_kernels as kernels
from asyncdali.codecs.jpeg import jpeg_library
from asyncdali.codecs.jpeg.jpeg_tables import JPEG_HEADER, JPEG_WINDOW
from asyncdali.operators.base import SampleError

# 18x11, 4:2:0, arithmetic coding. Neither Pillow nor OpenCV can write such a file.
ARITHMETIC = base64.b64decode(
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAgGBgcGBQgHBwcJCQgKDBQNDAsLDBkSEw8UHRofHh0aHBwgJC4nICIsIxwcKDcpLDAxNDQ0Hyc5PTgyPC4zNDL/"
    "2wBDAQkJCQwLDBgNDRgyIRwhMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjL/yQARCAALABIDASIAAhEBAxEB/8wA"
    "CgAQEAUBEBEF/9oADAMBAAIRAxEAPwDSX2jwCAY6dNQJE3dO2hfF0Xg4ZB7Du1QrEYQu2hWa2fPjFiKXa0vZWpt9wyFECgMiwTNLjFBkiOmhE5Cpks8wmo79"
    "mp7tcEU71oqZpfNDEWn9N+pmYIGNW2oeEYkNVOilB04yyAg/HkD44rvYYP/Z"
)
SAMPLINGS = [
    [(1, 1)], [(2, 2)], [(2, 2), (1, 1), (1, 1)], [(2, 1), (1, 1), (1, 1)], [(1, 2), (1, 1), (1, 1)], [(1, 1)] * 3,
    [(4, 1), (1, 1), (1, 1)], [(4, 2), (1, 1), (1, 1)], [(1, 4), (1, 1), (1, 1)], [(3, 1), (1, 1), (1, 1)], [(1, 3), (1, 1), (1, 1)],
    [(1, 1), (2, 2), (1, 1)], [(2, 2), (2, 1), (1, 2)], [(2, 1), (1, 1), (2, 1)], [(4, 1), (2, 1), (1, 1)], [(3, 2), (1, 1), (1, 1)],
]  # fmt: skip
SIZES = [(1, 1), (1, 40), (40, 1), (7, 9), (16, 16), (17, 33), (64, 48), (99, 75), (130, 61)]


def scan(data: bytes) -> dict[str, int]:
    array = np.frombuffer(data, np.uint8)
    row = kernels.read_headers(np.array([array.ctypes.data]), np.array([array.size]))[0][0]
    return {field.name: int(row[JPEG_HEADER.columns(field.name)]) for field in JPEG_HEADER.fields}


def windows_equal_the_whole(data: bytes, rng: np.random.Generator, count: int = 16, **arguments) -> None:
    """Windows equal the same part of the whole image. The windows are random; some are single pixels, some are at edges."""
    whole = run_operator("decoders.image", [data], **arguments)[0]
    extents = np.array(whole.shape[:2])
    start = rng.integers(0, extents, (count, 2))
    shape = np.minimum(1 + rng.integers(0, extents, (count, 2)) * (rng.random((count, 2)) < 0.7), extents - start)
    start[0], shape[0] = extents - 1, 1  # the last pixel
    start[1], shape[1] = (0, 0), (1, extents[1])
    start[2], shape[2] = (0, extents[1] - 1), (extents[0], 1)
    parts = run_operator(
        "decoders.image_slice", [data] * count, start=PerSample(start.astype(np.int32)), shape=PerSample(shape.astype(np.int32)),
        axes=[0, 1], **arguments,
    )  # fmt: skip
    for (y, x), (h, w), part in zip(start, shape, parts):
        assert np.array_equal(part, whole[y : y + h, x : x + w]), (y, x, h, w)


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=str)
def test_windows_equal_the_whole_image(sampling):
    rng = np.random.default_rng(len(sampling) * 100 + sampling[0][0] * 10 + sampling[0][1])
    for k, (width, height) in enumerate(SIZES):
        windows_equal_the_whole(jpeg_blocks(width, height, sampling, seed=k, restart=k % 3), rng)


@pytest.mark.parametrize("progressive", [0, 1])
@pytest.mark.parametrize("sampling", ["411", "420", "422", "440", "444"])
def test_windows_of_photographic_images(sampling, progressive):
    rng = np.random.default_rng(int(sampling))
    for width, height in [(37, 29), (131, 61)]:
        options = [cv2.IMWRITE_JPEG_SAMPLING_FACTOR, getattr(cv2, f"IMWRITE_JPEG_SAMPLING_FACTOR_{sampling}")]
        options += [cv2.IMWRITE_JPEG_PROGRESSIVE, progressive, cv2.IMWRITE_JPEG_QUALITY, 70]
        data = encode_cv(picture(height, width), ".jpg", options)
        for output_type in (types.RGB, types.GRAY, types.BGR):
            windows_equal_the_whole(data, rng, output_type=output_type, use_fast_idct=bool(width & 2))


def test_windows_of_progressive_images_that_lack_scans():
    """libjpeg smooths such images across blocks, so enough columns beside the window must be decoded."""
    data = encode_cv(picture(75, 199), ".jpg", [cv2.IMWRITE_JPEG_PROGRESSIVE, 1])
    starts = [at for at in range(len(data) - 1) if data[at : at + 2] == b"\xff\xda"]
    for cut in starts[1:]:
        windows_equal_the_whole(data[:cut] + b"\xff\xd9", np.random.default_rng(cut), 24)


def test_windows_of_turned_images():
    rng = np.random.default_rng(8)
    for orientation in range(1, 9):
        windows_equal_the_whole(with_orientation(jpeg_blocks(45, 31, SAMPLINGS[2], seed=1), orientation), rng)


def test_whole_images_are_libjpeg_turbos():
    for k, sampling in enumerate(SAMPLINGS):
        data = jpeg_blocks(61, 43, sampling, seed=k)
        expected = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
        assert np.array_equal(run_operator("decoders.image", [data])[0], expected)


def test_arithmetic_coding():
    expected = np.asarray(Image.open(io.BytesIO(ARITHMETIC)))
    assert np.array_equal(run_operator("decoders.image", [ARITHMETIC])[0], expected)
    windows_equal_the_whole(ARITHMETIC, np.random.default_rng(1))


def test_steps_write_only_their_window():
    """Guard bytes surround the rows of the output and follow the scratch."""
    table = jpeg_library.function_table()
    assert table is not None
    data = np.frombuffer(jpeg_blocks(131, 67, SAMPLINGS[2]), np.uint8)
    rng = np.random.default_rng(3)
    for orientation in (1, 2, 5, 8):
        for _ in range(40):
            x, y = int(rng.integers(131)), int(rng.integers(67))
            w, h = int(rng.integers(1, 132 - x)), int(rng.integers(1, 68 - y))
            out = np.full(w * h * 3 + 128, 0x5A, np.uint8)
            size, offset = kernels.scratch_bytes(131 * 3, w * h * 3)
            scratch = np.full(size + 64, 0x5A, np.uint8)
            text = np.zeros(64, np.uint8)
            window, _ = JPEG_WINDOW.make(
                kind=kernels.JPEG, x=x, y=y, w=w, h=h, width=131, height=67, orientation=orientation, margin=16, pixel=3, components=3
            )
            pointers = np.array([data.ctypes.data, data.size, out.ctypes.data + 64], np.int64)
            at = pointers.ctypes.data
            context = kernels.context_of(table.ctypes.data, kernels.JpegArrays(at, at + 8, window.ctypes.data, at + 16), turned=offset)
            thread = kernels.thread_record(scratch[:size], text)
            assert kernels.decode_step(context.ctypes.data, 0, thread.ctypes.data) == 0
            assert (out[:64] == 0x5A).all() and (out[-64:] == 0x5A).all() and (scratch[size:] == 0x5A).all()


# --- the header scan


def test_header_fields():
    found = scan(with_orientation(jpeg_blocks(300, 200, [(2, 1), (1, 1), (1, 1)]), 6))
    assert found == {
        "found": kernels.IS_JPEG, "width": 300, "height": 200, "components": 3, "orientation": 6, "margin": 16, "marker": 0xC0, "scans": 1,
        "adobe": 0,
    }  # fmt: skip
    assert scan(encode(picture(20, 20), "JPEG", progressive=True))["scans"] > 5
    assert scan(encode(picture(9, 9), "PNG"))["found"] == kernels.NOT_JPEG
    assert scan(b"")["found"] == kernels.NOT_JPEG


def test_the_orientation_is_found_behind_other_segments():
    data = with_orientation(jpeg_blocks(30, 20, [(1, 1)]), 3)
    extra = segment(0xE0, b"JFIF\0" + b"\0" * 9) + segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0") + segment(0xFE, b"comment")
    assert scan(data[:2] + extra + data[2:])["orientation"] == 3
    assert scan(data[:2] + b"\xff\xff" + data[2:])["orientation"] == 3  # fill bytes


@pytest.mark.parametrize("cut", range(0, 60, 3))
def test_the_scan_of_a_cut_header_stays_within_the_data(cut):
    data = with_orientation(jpeg_blocks(30, 20, [(1, 1)]), 3)[:cut]
    assert scan(data)["width"] == 0


# --- libraries


def test_without_libjpeg_turbo_opencv_decodes_everything(monkeypatch):
    samples = [encode(picture(40, 60), "JPEG", quality=95, subsampling=0), with_orientation(encode(picture(20, 30, 1), "JPEG"), 6)]
    samples.append(encode(picture(20, 30), "PNG"))
    expected = run_operator("decoders.image", samples)
    monkeypatch.setattr(jpeg_library, "_candidates", lambda: ["/nowhere/libjpeg.so"])
    jpeg_library.function_table.cache_clear()
    try:
        with pytest.warns(RuntimeWarning, match="libjpeg-turbo is not available") as caught:
            found = run_operator("decoders.image", samples)
        assert len(caught) == 1
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # another decoder gives no second warning
            parts = run_operator("decoders.image_crop", samples, crop=(11, 12))
            with pytest.raises(SampleError, match="truncated"):
                run_operator("decoders.image", [samples[0][:700]])
            grey = run_operator("decoders.image", samples[:1], output_type=types.GRAY)[0]
            with pytest.raises(SampleError, match="8 bits"):
                run_operator("decoders.image", [samples[0].replace(b"\xff\xc0", b"\xff\xc3")])
    finally:
        jpeg_library.function_table.cache_clear()
    assert grey.shape == (40, 60, 1)
    for a, b, part in zip(found, expected, parts, strict=True):
        assert a.shape == b.shape and np.abs(a.astype(int) - b).max() <= 1
        y, x = (int(np.floor((extent - size) / 2 + 0.5)) for extent, size in zip(a.shape, (11, 12)))
        assert np.array_equal(part, a[y : y + 11, x : x + 12])


def test_a_libjpeg_of_another_abi_is_not_used(monkeypatch):
    monkeypatch.setattr(jpeg_library, "_trusted", lambda table: False)
    jpeg_library.function_table.cache_clear()
    try:
        with pytest.warns(RuntimeWarning, match="another ABI"):
            assert jpeg_library.function_table() is None
    finally:
        jpeg_library.function_table.cache_clear()
