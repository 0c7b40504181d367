"""Mutated pictures have one result on every path: our decoders and the libraries', compiled and Python, whole and crop, every colour space.

Which path runs depends on the batch, on the platform and on the user's arguments, so it must not show. Run more files with
``python tests/fuzz/test_picture_paths_fuzz.py png 20000 1`` (format, number of files, seed).
"""

from __future__ import annotations

import os
import struct
import sys
import zlib
from functools import cache

import cv2
import numpy as np
import pytest

if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from helpers.images import encode, encode_cv, exif, jpeg_blocks, picture, png, png_16, png_chunk, segment, tiff, with_orientation
from helpers.operators import run_operator
from PIL import Image

from asyncdali import types
from asyncdali.codecs.image_headers import signature
from asyncdali.operators.base import SampleError
from asyncdali.operators.decode import image_decoder, png_samples
from asyncdali.readers.video.frame_files import decode_frame

RGB, GREY, RGBA = picture(24, 37), picture(24, 37, 1), picture(24, 37, 4)
WIDE = (RGB.astype(np.uint16) << 8) + 77
_CMYK = encode(Image.fromarray(RGB).convert("CMYK"), "JPEG")


@cache
def seeds(kind: str) -> list[bytes]:
    """Small files of one format."""
    if kind == "png":
        rows = b"".join(b"\1" + row.tobytes() for row in np.diff(RGB, axis=1, prepend=np.zeros_like(RGB[:, :1])))
        palette = encode(Image.fromarray(RGB).quantize(16), "PNG", transparency=bytes([0, 128] * 8))
        more = png_chunk(b"bKGD", bytes(6)) + png_chunk(b"gAMA", bytes(4)) + png_chunk(b"tEXt", b"k\0v")
        return [
            encode(RGB, "PNG"), encode(GREY, "PNG"), encode(RGBA, "PNG", compress_level=0), png_16(WIDE), palette,
            png(37, 24, 8, 2, rows, more), png(37, 24, 8, 2, rows, png_chunk(b"tRNS", bytes(6))),
            encode(GREY > 99, "PNG"), png(37, 24, 8, 2, rows, png_chunk(b"eXIf", exif(6))), encode(picture(24, 37, 2), "PNG"),
        ]  # fmt: skip
    if kind == "jpeg":
        return [
            encode(RGB, "JPEG", quality=80), encode(GREY, "JPEG"), encode(RGB, "JPEG", progressive=True, subsampling=2),
            with_orientation(encode(RGB, "JPEG", subsampling=0), 6), jpeg_blocks(37, 29, [(2, 2), (1, 1), (1, 1)], restart=2),
            jpeg_blocks(20, 20, [(1, 1)] * 4, adobe=2), jpeg_blocks(40, 10, [(4, 1), (1, 1), (1, 1)]), _CMYK,
            jpeg_blocks(33, 21, [(1, 2), (1, 1), (1, 1)]), jpeg_blocks(20, 20, [(1, 1)] * 3, adobe=0),
            encode(GREY, "JPEG", progressive=True),
        ]  # fmt: skip
    if kind == "tiff":
        files = [encode(RGB, "TIFF"), encode_cv(WIDE, ".tiff"), encode(RGB, "TIFF", compression="jpeg"), encode(GREY > 99, "TIFF")]
        files += [encode(image, "TIFF", compression=coding) for image in (RGB, GREY) for coding in ("tiff_lzw", "tiff_deflate", "packbits")]
        files += [encode(GREY > 99, "TIFF", compression=coding) for coding in ("group3", "group4")]
        files += [tiff(RGBA, 2, planar, 2, True, order) for planar in (False, True) for order in "<>"]
        files += [
            tiff(WIDE, 1, True, 1, False, ">"),
            encode(Image.fromarray(RGB).quantize(16), "TIFF"),
            encode(RGBA, "TIFF", tiffinfo={274: 6}),
        ]
        return [*files, encode(Image.fromarray(GREY / np.float32(255)), "TIFF"), encode(Image.fromarray(RGBA, "CMYK"), "TIFF")]
    files = [encode(RGB, "JPEG2000"), encode(RGB, "JPEG2000", no_jp2=True), encode(GREY, "JPEG2000"), encode(RGBA, "JPEG2000")]
    files += [encode(WIDE[:, :, 0], "JPEG2000"), encode(RGB, "JPEG2000", tile_size=(16, 16)), encode(picture(24, 37, 2), "JPEG2000")]
    return [
        *files,
        encode(RGB, "JPEG2000", offset=(7, 5), tile_size=(64, 64)),
        encode(RGB, "JPEG2000", irreversible=True, quality_layers=[20]),
    ]


def mutated(kind: str, rng: np.random.Generator) -> bytes:
    """A file with damage, accidental or as in an attack. Half of the PNGs have right checksums, so the damage reaches the decoders."""
    files = seeds(kind)
    data = bytearray(files[rng.integers(len(files))])
    if kind == "png" and rng.random() < 0.5:
        data = bytearray(_other_chunks(bytes(data), rng))
        if rng.random() < 0.7:
            return bytes(data)
    for _ in range(int(rng.integers(1, 3))):
        _damage(data, files, rng)
    if kind == "png" and rng.random() < 0.6:
        at = 8
        while at + 12 <= len(data):
            (length,) = struct.unpack_from(">I", data, at)
            if at + 12 + length > len(data):
                break
            data[at + 8 + length : at + 12 + length] = struct.pack(">I", zlib.crc32(data[at + 4 : at + 8 + length]))
            at += 12 + length
    return bytes(data)


_KINDS = (
    b"tRNS",
    b"bKGD",
    b"gAMA",
    b"eXIf",
    b"PLTE",
    b"acTL",
    b"fcTL",
    b"tEXt",
    b"iCCP",
    b"sBIT",
    b"IDAT",
    b"IEND",
    b"CgBI",
    b"zzZz",
    b"1234",
)


def _other_chunks(data: bytes, rng: np.random.Generator) -> bytes:
    """A whole PNG with other chunks: one more, one less, one twice, one divided, or the file ends within or behind one."""
    chunks, at = [], 8
    while at + 12 <= len(data):
        (length,) = struct.unpack_from(">I", data, at)
        chunks.append(data[at : at + 12 + length])
        at += 12 + length
    for _ in range(int(rng.integers(1, 3))):
        kind, k = rng.integers(6), int(rng.integers(1, len(chunks) + 1))
        if kind <= 1:
            contents = exif(int(rng.integers(10))) if rng.random() < 0.2 else rng.bytes(int(rng.choice([0, 1, 2, 3, 6, 9, 26])))
            chunks.insert(k, png_chunk(_KINDS[rng.integers(len(_KINDS))], contents))
        elif kind == 2 and len(chunks) > 2:
            del chunks[k - 1]
        elif kind == 3:
            chunks.insert(k, chunks[k - 1])
        elif kind == 4 and len(chunks[k - 1]) > 13:
            name, contents = chunks[k - 1][4:8], chunks[k - 1][8:-4]
            middle = int(rng.integers(len(contents)))
            chunks[k - 1 : k] = [png_chunk(name, contents[:middle]), png_chunk(name, contents[middle:])]
        else:
            changed = bytearray(chunks[k - 1])
            changed[-int(rng.integers(1, 5))] ^= 1  # the checksum
            chunks[k - 1] = bytes(changed)
    whole = data[:8] + b"".join(chunks)
    return whole[: len(whole) - int(rng.integers(1, 20))] if rng.random() < 0.3 else whole


def _damage(data: bytearray, files: list[bytes], rng: np.random.Generator) -> None:
    kind, start = rng.integers(9), 2
    if len(data) < 12:
        return
    if kind == 0:
        data[rng.integers(start, len(data))] ^= 1 << int(rng.integers(8))
    elif kind == 1:
        for _ in range(int(rng.integers(1, 6))):
            data[rng.integers(start, len(data))] = int(rng.integers(256))
    elif kind == 2:
        del data[int(rng.integers(8, len(data))) :]
    elif kind == 3:
        data[rng.integers(start, min(64, len(data)))] = int(rng.choice([0, 1, 2, 4, 8, 0x7F, 0x80, 0xFF]))
    elif kind == 4:
        at = int(rng.integers(start, min(300, len(data) - 4)))
        data[at : at + 4] = struct.pack("<I" if rng.random() < 0.5 else ">I", int(rng.choice([0, 1, 37, 0x7FFFFFFF, 0xFFFFFFFF, 65535])))
    elif kind == 5:
        other = files[rng.integers(len(files))]
        data[int(rng.integers(8, len(data))) :] = other[int(rng.integers(len(other))) :]
    elif kind == 6:
        a, b = sorted(int(v) for v in rng.integers(8, len(data), 2))
        data[a:b] = b"" if rng.random() < 0.5 else data[a:b] * 2
    elif kind == 7:
        at = int(rng.integers(start, len(data)))
        data[at:at] = segment(int(rng.choice([0xE1, 0xEE, 0xDB, 0xDD, 0xFE])), bytes(12)) if data[:2] == b"\xff\xd8" else b"\0"
    else:  # the end
        data[-int(rng.integers(1, min(40, len(data) - 8))) :] = b"trailing" if rng.random() < 0.5 else b""


def result(data: bytes, operator: str = "decoders.image", **arguments) -> np.ndarray | str:
    """The picture, or the text of the error."""
    try:
        return run_operator(operator, [data], **arguments)[0]
    except SampleError as error:
        assert str(error)
        return str(error)


def same(a: np.ndarray | str, b: np.ndarray | str) -> bool:
    if isinstance(a, str) or isinstance(b, str):
        return isinstance(a, str) and isinstance(b, str)
    return np.array_equal(a, b, equal_nan=a.dtype.kind == "f")


def none_decoded(*arguments):
    """In place of ``decoded_pngs``: OpenCV decodes all files."""
    yield from ()
    return png_samples._NOTHING


def without_own(data: bytes, **arguments) -> np.ndarray | str:
    """The result without our own decoders, as libraries give it."""
    compiled, before = image_decoder.decoded_pngs, os.environ.get("ASYNCDALI_JPEG")
    image_decoder.decoded_pngs = none_decoded
    os.environ["ASYNCDALI_JPEG"] = "turbo"
    try:
        return result(data, **arguments)
    finally:
        image_decoder.decoded_pngs = compiled
        del os.environ["ASYNCDALI_JPEG"]
        if before is not None:
            os.environ["ASYNCDALI_JPEG"] = before


def frame(data: bytes) -> np.ndarray | str:
    """The file as the frame of a sequence."""
    try:
        return decode_frame(np.frombuffer(data or b"\0", np.uint8), types.RGB)
    except ValueError as error:
        return str(error)


def check(data: bytes, rng: np.random.Generator) -> bool:
    """Compare all paths of one file; returns whether there is a picture. AssertionError names the paths that differ."""
    kind = signature(data)
    whole = result(data)
    assert same(whole, without_own(data)), "own decoder or not"
    if isinstance(whole, str):
        assert whole == without_own(data), f"texts of errors: {whole}"
        height, width = 24, 37
    else:
        height, width = whole.shape[:2]
        shape = result(data, "peek_image_shape")
        assert not isinstance(shape, str) and shape.tolist() == list(whole.shape), "peek_image_shape"
    assert same(whole, frame(data)), "frame of a sequence"
    colour = types.DALIImageType(rng.choice([types.BGR, types.GRAY, types.ANY_DATA, types.YCbCr]))
    dtype = [types.UINT8, types.UINT16, types.FLOAT][rng.integers(3)]
    other = result(data, output_type=colour, dtype=dtype)
    assert same(other, without_own(data, output_type=colour, dtype=dtype)), f"own decoder or not, {colour} {dtype}"
    luma_only = isinstance(whole, str) and "Fractional sampling" in whole and colour == types.GRAY  # libjpeg needs no chroma for grey.
    if not luma_only and not (isinstance(other, str) and ("ANY_DATA" in other or "alpha is not supported" in other)):
        assert isinstance(other, str) == isinstance(whole, str), f"RGB and {colour} {dtype}: {other if isinstance(other, str) else whole}"
    if colour == types.BGR and dtype == types.UINT8 and not isinstance(whole, str):
        assert np.array_equal(other, whole[:, :, ::-1]), "RGB and BGR"
    scaled = result(data, dtype=types.FLOAT)
    assert isinstance(scaled, str) == isinstance(whole, str), "UINT8 and FLOAT"
    if not isinstance(whole, str) and not isinstance(scaled, str) and np.isfinite(scaled).all() and scaled.max() <= 1 and scaled.min() >= 0:
        assert np.abs(scaled * 255 - whole).max() < 0.51, "UINT8 and FLOAT"
    h, w = int(rng.integers(1, height + 1)), int(rng.integers(1, width + 1))
    window = {"crop": (h, w), "crop_pos_x": float(rng.random()), "crop_pos_y": float(rng.choice([0, 1, rng.random()]))}
    part, turbos = result(data, "decoders.image_crop", **window), without_own(data, operator="decoders.image_crop", **window)
    assert same(part, turbos), "crop: own decoder or not"
    if not isinstance(whole, str):
        y, x = (int(np.floor(window[f"crop_pos_{axis}"] * (n - m) + 0.5)) for axis, n, m in (("y", height, h), ("x", width, w)))
        places = [(a, b) for a in (y, y - 1) for b in (x, x - 1) if a >= 0 and b >= 0]
        assert not isinstance(part, str) and any(np.array_equal(part, whole[a : a + h, b : b + w]) for a, b in places), "whole and crop"
    elif kind != "JPEG":  # A window of a JPEG needs the rows down to its last one only, as in DALI.
        assert isinstance(part, str), "whole and crop"
    return not isinstance(whole, str)


def fuzz(kind: str, count: int, seed: int) -> tuple[int, int]:
    """(pictures, errors) of `count` mutated files of a format."""
    rng = np.random.default_rng([seed, *kind.encode()])
    pictures = 0
    for k in range(count):
        data = mutated(kind, rng)
        try:
            pictures += check(data, rng)
        except AssertionError as error:
            raise AssertionError(
                f"{kind} {seed} {k}: {error}; the file: {data.hex() if len(data) < 600 else zlib.compress(data).hex()}"
            ) from None
    return pictures, count - pictures


KINDS = ["png", "jpeg", "tiff", "jp2"]


@pytest.mark.parametrize("kind", KINDS)
def test_one_result_on_every_path_quick(kind):
    pictures, errors = fuzz(kind, 60, 1)
    assert pictures > 5 and errors > 5


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_one_result_on_every_path(kind):
    pictures, errors = fuzz(kind, 10_000, 2)
    assert pictures > 500 and errors > 500


if __name__ == "__main__":
    cv2.setNumThreads(1)
    format_, number, first = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    for part in range(0, number, 1000):  # Seeds follow one another, so a run that is stopped has counts, too.
        found = fuzz(format_, min(1000, number - part), first + part // 1000)
        print(format_, "seed", first + part // 1000, "pictures and errors:", *found, flush=True)
